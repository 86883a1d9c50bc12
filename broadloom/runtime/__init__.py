"""What runs: targets and linking, the native thread pool and allocator, the object cache, the entry of a call."""
