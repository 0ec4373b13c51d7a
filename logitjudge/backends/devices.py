"""The GPUs of this machine."""

from __future__ import annotations

import torch


def gpus() -> list[int]:
    """Bytes of memory of each GPU that this process may use."""
    return [torch.cuda.get_device_properties(n).total_memory for n in range(torch.cuda.device_count())]
