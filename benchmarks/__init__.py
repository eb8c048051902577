"""How fast is Reverie, beside engines that people would use instead? Run `python -m benchmarks`."""
