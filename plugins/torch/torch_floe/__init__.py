"""The PyTorch backend "floe": CPU collectives over shared memory and libfabric.

Nothing needs to be imported: PyTorch finds the package through its entry point, and
`torch.distributed.init_process_group("floe")` works. The native library is loaded at first use.
"""


def _autoload() -> None:
    """The entry point, which `import torch` calls at its end: an error must not break that."""
    try:
        from torch_floe._backend import register

        register()
    except Exception as error:
        import warnings

        warnings.warn(f"the backend 'floe' is not available: {error}", stacklevel=2)


# This imports torch, which calls _autoload, so it comes after that.
from torch_floe._hooks import bf16_hook  # noqa: E402

# With entry points turned off (TORCH_DEVICE_BACKEND_AUTOLOAD=0) this import registers the backend.
_autoload()

__all__ = ["bf16_hook"]
