"""Models of one family by size: GPT-2's architecture, the same tokens for all, on stories and on news.

    pip install -e '.[dev]'
    python experiments/family/train.py [books | news | epoch] [SIZE ...]     about an hour on one core; continues where it stopped

A vocabulary of 2,048 byte pairs is fitted per domain; each size reads the same sequences in the same order, once. Weights are kept in the user's
cache folder under a digest of the settings. Writes training-DOMAIN.json beside this file: parameters, held-out perplexity per token and per word.
"""

from __future__ import annotations

import json
import math
import sys
import time
from pathlib import Path

import numpy as np
import torch
from settings import (
    BATCH,
    CONTEXT,
    DOMAINS,
    SIZES,
    VOCABULARY,
    Domain,
    Size,
    available,
    domain_folder,
    human_texts,
    model_folder,
)
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

HERE = Path(__file__).resolve().parent
END = "<|endoftext|>"
HELD_OUT = 300  # texts whose perplexity is shown


def fitted_tokenizer(domain: Domain) -> PreTrainedTokenizerFast:
    path = domain_folder(domain) / "tokenizer.json"
    if not path.exists():
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=VOCABULARY, special_tokens=[END], initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
        )
        tokenizer.train_from_iterator(human_texts(domain)[0], trainer)
        tokenizer.save(str(path))
    return PreTrainedTokenizerFast(tokenizer_file=str(path), eos_token=END, bos_token=END, unk_token=END)


def sequences(domain: Domain, tokenizer: PreTrainedTokenizerFast) -> torch.Tensor:
    """Training texts, joined by the end token and cut into rows of the context's length."""
    flat: list[int] = []
    for ids in tokenizer(human_texts(domain)[0], add_special_tokens=False)["input_ids"]:
        flat += [tokenizer.eos_token_id, *ids]
    rows = len(flat) // CONTEXT
    return torch.tensor(flat[: rows * CONTEXT]).view(rows, CONTEXT)


def build(size: Size) -> GPT2LMHeadModel:
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=CONTEXT,
        n_embd=size.width,
        n_layer=size.layers,
        n_head=size.heads,
        resid_pdrop=0,
        embd_pdrop=0,
        attn_pdrop=0,
        bos_token_id=0,
        eos_token_id=0,
    )
    return GPT2LMHeadModel(config)


def train(domain: Domain, size: Size) -> None:
    """Train, or continue, the model; its folder holds the weights when it is done."""
    folder = model_folder(domain, size)
    if (folder / "model.safetensors").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = fitted_tokenizer(domain)
    rows = sequences(domain, tokenizer)
    model = build(size)
    optimiser = torch.optim.AdamW(model.parameters(), lr=size.rate, betas=(0.9, 0.95), weight_decay=0.05)
    steps = min(domain.tokens, rows.numel()) // (BATCH * CONTEXT)
    order = torch.from_numpy(np.random.default_rng(1).permutation(len(rows))[: steps * BATCH]).view(steps, BATCH)
    checkpoint, first, seconds = folder / "checkpoint.pt", 0, 0.0
    if checkpoint.exists():
        state = torch.load(checkpoint, weights_only=True)
        model.load_state_dict(state["model"])
        optimiser.load_state_dict(state["optimiser"])
        first, seconds = state["step"], state["seconds"]
    since = saved = time.monotonic()
    for step in range(first, steps):
        warm = min(1, (step + 1) / 50)
        decay = 0.05 + 0.95 * (1 + math.cos(math.pi * step / steps)) / 2
        for group in optimiser.param_groups:
            group["lr"] = size.rate * warm * decay
        batch = rows[order[step]]
        loss = model(batch, labels=batch).loss
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        if step % 50 == 0:
            speed = (step - first + 1) * BATCH * CONTEXT / (time.monotonic() - since)
            print(f"{domain.name} {size.name} {step}/{steps} loss {loss.item():.3f} {speed:.0f} tokens/s", flush=True)
        if time.monotonic() - saved > 60:
            content = {"model": model.state_dict(), "optimiser": optimiser.state_dict(), "step": step + 1}
            torch.save({**content, "seconds": seconds + time.monotonic() - since}, checkpoint)
            saved = time.monotonic()
    tokenizer.save_pretrained(folder)
    facts = {"seconds": seconds + time.monotonic() - since, "tokens": steps * BATCH * CONTEXT}
    (folder / "training.json").write_text(json.dumps(facts))
    model.save_pretrained(folder)
    checkpoint.unlink(missing_ok=True)


@torch.inference_mode()
def perplexities(domain: Domain, size: Size) -> dict[str, float]:
    """Of held-out text: per token, and per word, which does not depend on the vocabulary."""
    model = GPT2LMHeadModel.from_pretrained(model_folder(domain, size)).eval()
    tokenizer = fitted_tokenizer(domain)
    total, tokens, words = 0.0, 0, 0
    for text in human_texts(domain)[1][:HELD_OUT]:
        ids = [tokenizer.eos_token_id, *tokenizer.encode(text, add_special_tokens=False)][:CONTEXT]
        row = torch.tensor([ids])
        total += model(row, labels=row).loss.item() * (len(ids) - 1)
        tokens += len(ids) - 1
        words += len(tokenizer.decode(ids[1:]).split())
    parameters = sum(each.numel() for each in model.parameters())
    return {
        "parameters": parameters,
        "perplexity per token": math.exp(total / tokens),
        "perplexity per word": math.exp(total / words),
    }


def main() -> None:
    torch.set_num_threads(1)
    wanted = sys.argv[1:]
    for domain in DOMAINS.values():
        if wanted and domain.name not in wanted and set(wanted) & set(DOMAINS):
            continue
        sizes = [size for size in SIZES if size.name in domain.sizes]
        chosen = [size for size in sizes if size.name in wanted] or sizes
        for size in chosen:
            train(domain, size)
            write_facts(domain)


def write_facts(domain: Domain) -> None:
    """What is known of the sizes that are trained."""
    sizes = [size for size in SIZES if size.name in available(domain.name).sizes]
    facts = {
        size.name: {
            **perplexities(domain, size),
            **json.loads((model_folder(domain, size) / "training.json").read_text()),
        }
        for size in sizes
    }
    (HERE / f"training-{domain.name}.json").write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
