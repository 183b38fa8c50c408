"""The harnesses plugins: one folder, one class each; config names the folder."""
