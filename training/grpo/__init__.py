"""The built-in asynchronous GRPO loop: Ray for processes, torch for the policy, vLLM for generation."""
