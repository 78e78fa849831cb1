"""What to export so that Gloo programs, in PyTorch or linked with libgloo, run over floe unchanged.

eval "$(python -m torch_floe.env)"; torchrun --nproc_per_node 2 script.py
"""

import shlex
from pathlib import Path


def main() -> None:
    shim = Path(__file__).resolve().parent / "lib" / "libfloe_gloo_preload.so"
    print("export GLOO_DEVICE_TRANSPORT=FLOE")
    print(f'export LD_PRELOAD={shlex.quote(str(shim))}"${{LD_PRELOAD:+:$LD_PRELOAD}}"')


if __name__ == "__main__":
    main()
