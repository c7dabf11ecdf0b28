"""A small diffusion model of digits, for the comparison with a GAN (paper: tab:expt:gan-v-diffusion).

    python experiments/digits/diffusion.py        about ten minutes; continues where it stopped

A network of 0.9 million weights removes noise from digits on their first 200 principal components, with the scaling, the noise levels and the sampler of
Karras et al. (2022). It learns from 4,500 digits; another 500 choose the weights with the lowest loss, so that it does not learn single digits by heart.
What a step draws depends on its number alone. Weights are kept in the user's cache folder.
"""

from __future__ import annotations

import hashlib
import math
import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

from mallow.embed import default_cache

COMPONENTS, WIDTH, BLOCKS = 200, 416, 2
STEPS, BATCH, RATE, AVERAGE, DROPOUT = 8_000, 256, 2e-3, 0.998, 0.1
CHOOSING, EVERY = 500, 250  # digits that choose the weights, and steps between two looks at them
NOISE = (-1.0, 1.3)  # mean and standard deviation of the logarithm of the noise level in training
LEVELS, LOWEST, HIGHEST, CURVE = 40, 0.01, 20.0, 7  # of the sampler
SETTINGS = (COMPONENTS, WIDTH, BLOCKS, STEPS, BATCH, RATE, AVERAGE, DROPOUT, CHOOSING, EVERY, NOISE)


class Block(nn.Module):
    """Two layers whose output is added to their input; the noise level shifts the first."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.first, self.last = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.dropout = nn.Dropout(DROPOUT)
        nn.init.zeros_(self.last.weight)

    def forward(self, x: torch.Tensor, level: torch.Tensor) -> torch.Tensor:
        inner = nn.functional.silu(self.first(self.norm(x) + level))
        return x + self.last(self.dropout(inner))


class Denoiser(nn.Module):
    """The clean digit (b, components) from a noisy one and its noise level (b, 1)."""

    def __init__(self, spread: float) -> None:
        super().__init__()
        self.spread = spread
        self.enter, self.level, self.leave = (
            nn.Linear(COMPONENTS, WIDTH),
            nn.Linear(32, WIDTH),
            nn.Linear(WIDTH, COMPONENTS),
        )
        self.blocks = nn.ModuleList(Block() for _ in range(BLOCKS))
        self.register_buffer("waves", 2.0 ** torch.arange(-4, 4).repeat_interleave(2) * math.pi)

    def forward(self, x: torch.Tensor, level: torch.Tensor) -> torch.Tensor:
        total = (level**2 + self.spread**2).sqrt()
        angles = level.log() / 4 * self.waves
        hidden = self.enter(x / total)
        shift = self.level(torch.cat([angles.sin(), angles.cos()], dim=1))
        for block in self.blocks:
            hidden = block(hidden, shift)
        return (self.spread / total) ** 2 * x + level * self.spread / total * self.leave(nn.functional.silu(hidden))

    def loss(self, x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        level = (NOISE[0] + NOISE[1] * torch.randn(len(x), 1, generator=generator)).exp()
        found = self(x + level * torch.randn(x.shape, generator=generator), level)
        weight = (level**2 + self.spread**2) / (level * self.spread) ** 2
        return (weight * (found - x) ** 2).mean()


def components(digits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mean (784) and the first principal components (components, 784) of digits."""
    flat = digits.reshape(len(digits), -1) / 255
    mean = flat.mean(axis=0)
    return mean, np.linalg.svd(flat - mean, full_matrices=False)[2][:COMPONENTS]


def trained(digits: np.ndarray) -> Denoiser:
    """The model of these digits: from the cache, or trained, or trained further."""
    cache = default_cache()
    if cache is None:
        sys.exit("This study keeps weights in the cache, which MALLOW_CACHE=off switches off.")
    label = hashlib.sha256(repr(SETTINGS).encode() + digits.tobytes()).hexdigest()[:16]
    path = cache.folder / "digits" / f"diffusion-{label}.pt"
    mean, axes = components(digits[CHOOSING:])
    points = torch.from_numpy((digits.reshape(len(digits), -1) / 255 - mean) @ axes.T).float()
    torch.manual_seed(0)
    model = Denoiser(float(points[CHOOSING:].std()))
    if not path.exists():
        train(model, points[CHOOSING:], points[:CHOOSING], path)
    model.load_state_dict(torch.load(path, weights_only=True)["chosen"])
    return model.eval()


def train(model: Denoiser, points: torch.Tensor, choosing: torch.Tensor, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished, saved = path.with_suffix(".part.pt"), time.monotonic()
    optimiser = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.01)
    average = torch.optim.swa_utils.AveragedModel(
        model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(AVERAGE)
    )
    first, lowest, chosen, history = 0, math.inf, model.state_dict(), []
    if unfinished.exists():
        state = torch.load(unfinished, weights_only=True)
        model.load_state_dict(state["model"])
        average.load_state_dict(state["average"])
        optimiser.load_state_dict(state["optimiser"])
        first, lowest, chosen, history = state["step"], state["lowest"], state["chosen"], state["history"]
    for step in range(first, STEPS):
        torch.manual_seed(step)
        generator = torch.Generator().manual_seed(step)
        for group in optimiser.param_groups:
            group["lr"] = RATE * min(1, (step + 1) / 200) * (0.02 + 0.98 * (1 + math.cos(math.pi * step / STEPS)) / 2)
        optimiser.zero_grad()
        model.train()
        loss = model.loss(points[torch.randint(len(points), (BATCH,), generator=generator)], generator)
        loss.backward()
        optimiser.step()
        average.update_parameters(model)
        if (step + 1) % EVERY == 0:
            average.eval()
            with torch.inference_mode():
                same = torch.Generator().manual_seed(1)
                seen = float(np.mean([average.module.loss(choosing, same).item() for _ in range(20)]))
            history.append((step + 1, round(seen, 4)))
            print(step + 1, f"loss {loss.item():.4f}, of other digits {seen:.4f}", flush=True)
            if seen < lowest:
                lowest, chosen = seen, {name: value.clone() for name, value in average.module.state_dict().items()}
        if time.monotonic() - saved > 30:
            content = {
                "model": model.state_dict(),
                "average": average.state_dict(),
                "optimiser": optimiser.state_dict(),
            }
            content |= {"step": step + 1, "lowest": lowest, "chosen": chosen, "history": history}
            torch.save(content, unfinished)
            saved = time.monotonic()
    torch.save({"chosen": chosen, "history": history}, path)
    unfinished.unlink(missing_ok=True)


@torch.inference_mode()
def diffusion(digits: np.ndarray, count: int, seed: int = 3) -> np.ndarray:
    """Images (count, 28, 28) of the model that was trained on these digits, by Heun's method from pure noise."""
    model, (mean, axes) = trained(digits), components(digits[CHOOSING:])
    steps = torch.arange(LEVELS) / (LEVELS - 1)
    levels = (HIGHEST ** (1 / CURVE) + steps * (LOWEST ** (1 / CURVE) - HIGHEST ** (1 / CURVE))) ** CURVE
    x = HIGHEST * torch.randn(count, COMPONENTS, generator=torch.Generator().manual_seed(seed))
    for level, following in zip(levels, [*levels[1:], torch.tensor(0.0)], strict=True):
        slope = (x - model(x, level.expand(count, 1))) / level
        guess = x + (following - level) * slope
        if following > 0:
            slope = (slope + (guess - model(guess, following.expand(count, 1))) / following) / 2
        x = x + (following - level) * slope
    flat = mean + x.numpy() @ axes
    return (flat * 255).round().clip(0, 255).astype(np.uint8).reshape(-1, 28, 28)


def main() -> None:
    from data import real

    torch.set_num_threads(1)
    model = trained(real(np.random.default_rng(0))[5000:])
    print(sum(each.numel() for each in model.parameters()), "weights")


if __name__ == "__main__":
    main()
