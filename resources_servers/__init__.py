"""The resources_servers plugins: one folder, one class each; config names the folder."""
