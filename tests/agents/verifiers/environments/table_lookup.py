"""A taskset with a tool: the answer is in a table that only the tool knows."""

import verifiers.v1 as vf

TABLE = {"ada": "1815", "alan": "1912", "grace": "1906"}


class TableToolset(vf.Toolset[vf.ToolsetConfig]):
    TOOL_PREFIX = "table"

    @vf.tool
    async def year(self, name: str) -> str:
        """The year of a name."""
        return TABLE[name]


class TableTaskConfig(vf.TaskConfig):
    tools: vf.ToolsetConfig = vf.ToolsetConfig()


class TableData(vf.TaskData):
    answer: str


class TableTask(vf.Task[TableData, vf.State, TableTaskConfig]):
    @classmethod
    def toolsets(cls, config: TableTaskConfig) -> list[vf.Toolset]:
        return [TableToolset(config.tools)]

    @vf.reward
    async def answered(self, trace: vf.Trace) -> float:
        return float(self.data.answer in trace.last_reply)


class TableConfig(vf.TasksetConfig):
    task: TableTaskConfig = TableTaskConfig()


class TableTaskset(vf.Taskset[TableTask, TableConfig]):
    def load(self) -> list[TableTask]:
        return [
            TableTask(
                TableData(prompt=[vf.UserMessage(content=f"Which year is that of {name}?")], answer=year),
                self.config.task,
            )
            for name, year in TABLE.items()
        ]


__all__ = ["TableTaskset"]

if __name__ == "__main__":
    TableToolset.run()
