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

        warnings.warn(f"torch_floe could not set itself up: {error}", stacklevel=2)


# torch calls _autoload at its end: this comes after that, and before what _autoload needs whole.
import torch  # noqa: E402, F401

from torch_floe._gloo import replace_gloo  # noqa: E402
from torch_floe._hooks import bf16_hook  # noqa: E402

# With entry points turned off (TORCH_DEVICE_BACKEND_AUTOLOAD=0) this import registers the backend.
_autoload()

__all__ = ["bf16_hook", "replace_gloo"]
