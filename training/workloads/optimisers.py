"""What `torch.optim` loads when it is first used."""


def load_optimisers() -> None:
    """Load torch's compiler, as the first optimiser would: seconds that are not those of a run, which would count them."""
    import torch._dynamo  # noqa: F401
