"""SkyRL's experiment with our generator, synchronous or fully asynchronous as SkyRL's config says."""

from typing import Any

from skyrl.backends.skyrl_train.inference_servers.utils import resolve_policy_model_name
from skyrl.train.entrypoints.main_base import BasePPOExp
from skyrl.train.fully_async_trainer import FullyAsyncRayPPOTrainer

from paddock.training.skyrl.generator import PaddockGenerator
from paddock.training.skyrl.settings import SkyRlSettings, require_supported
from paddock.training.skyrl.simulation import SimulatedTrainer


class PaddockExperiment(BasePPOExp):  # type: ignore[misc]
    """Trains as SkyRL does, on rollouts of ours."""

    def __init__(self, cfg: Any, settings: SkyRlSettings) -> None:
        require_supported(cfg.generator)
        super().__init__(cfg)
        self._settings = settings
        self._generator: PaddockGenerator | None = None

    def get_generator(self, cfg: Any, tokenizer: Any, inference_engine_client: Any) -> PaddockGenerator:
        """Our generator."""
        self._generator = PaddockGenerator(
            cfg.generator,
            inference_engine_client,
            cfg.trainer.policy.model.path,
            self._settings,
            filler=tokenizer.eos_token_id,
            policy_model_name=resolve_policy_model_name(cfg),
        )
        return self._generator

    def _setup_trainer(self) -> Any:
        """As SkyRL does; where training is simulated, without importing its workers, which need flash-attn."""
        cfg = self.cfg
        if not cfg.trainer.fully_async.simulate_training:
            return super()._setup_trainer()
        client = self.get_inference_client()
        self.trainer = self.get_trainer(
            cfg=cfg,
            tracker=self.get_tracker(),
            tokenizer=self.tokenizer,
            train_dataset=self.train_dataset,
            eval_dataset=self.eval_dataset,
            inference_engine_client=client,
            generator=self.get_generator(cfg, self.tokenizer, client),
            colocate_pg=self.colocate_pg,
        )
        return self.trainer

    def run(self) -> None:
        """Train to the end, and stop the servers."""
        try:
            super().run()
        finally:
            self.close()

    def close(self) -> None:
        """Stop the servers of the environments."""
        if self._generator is not None:
            self._generator.close()

    def get_trainer(self, cfg: Any, **named: Any) -> Any:
        """SkyRL's trainer: the fully asynchronous one where its config asks for that."""
        asked = cfg.trainer.fully_async
        if asked.simulate_training:
            return SimulatedTrainer(cfg=cfg, **named)
        if asked.enabled:
            return FullyAsyncRayPPOTrainer(cfg=cfg, **named)
        return super().get_trainer(cfg=cfg, **named)
