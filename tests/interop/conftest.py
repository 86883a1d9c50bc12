"""The calls are imported by a process of their own alone, which has SCIPY_ARRAY_API=1 in its environment."""

collect_ignore_glob = ["*_calls.py"]
