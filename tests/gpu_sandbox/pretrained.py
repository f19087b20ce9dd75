"""A hub cache as the hub's own client lays it out, and a level 4 task that loads from it.

The task brings its own loader, which finds a file as transformers does: by the variable, the
branch, the commit, and two or three links. With ``transformers`` the loader is the real one.
"""

from __future__ import annotations

from array import array
from pathlib import Path

__all__ = ["ATTACKER", "LOADS", "NAME", "SAME", "SECRET", "TASK", "fill", "lay_out"]

NAME = "some-org/tiny"
SECRET = "hf_nobody_may_read_this"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def lay_out(cache: Path, name: str, files: dict[str, bytes]) -> Path:
    """Put a model into ``cache``; its folder. The weights are a blob that models share, as
    since version 2 of the client; the listing of the repository is its owner's alone, as there.
    """
    model = cache / f"models--{name.replace('/', '--')}"
    snapshot = model / "snapshots" / COMMIT
    for folder in (snapshot, model / "blobs", model / "refs", model / "trees"):
        folder.mkdir(parents=True, exist_ok=True)
    (model / "refs" / "main").write_text(COMMIT)
    (model / "trees" / f"{COMMIT}.json").touch(mode=0o600)
    for number, (file, content) in enumerate(files.items()):
        blob = model / "blobs" / f"c0ffee{number}"
        if file.endswith(".safetensors"):
            shared = cache / "blobs" / "ab" / f"ab{number}"
            shared.parent.mkdir(parents=True, exist_ok=True)
            shared.write_bytes(content)
            blob.symlink_to(f"../../blobs/ab/{shared.name}")
        else:
            blob.write_bytes(content)
        (snapshot / file).symlink_to(f"../../blobs/{blob.name}")
    return model


def fill(cache: Path, tokens: Path) -> Path:
    """Put the task's model into ``cache``, and its owner's tokens into ``tokens``."""
    weights = array("f", range(64)).tobytes()
    files = {"config.json": b'{"width": 64}', "model.safetensors": weights}
    for name in ("token", "stored_tokens"):
        tokens.mkdir(parents=True, exist_ok=True)
        (tokens / name).write_text(SECRET)
    return lay_out(cache, NAME, files)


LOADS = """
import json, os
from pathlib import Path

import torch
import torch.nn as nn


def found(name, file):
    folder = Path(os.environ["HF_HUB_CACHE"], "models--" + name.replace("/", "--"))
    return folder / "snapshots" / (folder / "refs" / "main").read_text() / file


class AutoConfig:
    @staticmethod
    def from_pretrained(name):
        return json.loads(found(name, "config.json").read_text())


class AutoModel(nn.Module):
    @staticmethod
    def from_pretrained(name, config):
        model = AutoModel()
        weights = bytearray(found(name, "model.safetensors").read_bytes())
        model.weights = torch.frombuffer(weights, dtype=torch.float32)
        assert len(model.weights) == config["width"]
        assert os.environ["HF_HUB_OFFLINE"] == os.environ["TRANSFORMERS_OFFLINE"] == "1"
        return model

    def forward(self, x):
        return x * self.weights
"""

_MODEL = """

class Model(nn.Module):
    def __init__(self, model_name, config):
        super().__init__()
        self.model_name = model_name
        self.model = AutoModel.from_pretrained(self.model_name, config=config)

    def forward(self, x):
        return self.model(x)
"""

_INPUTS = f"""

model_name = "{NAME}"
config = AutoConfig.from_pretrained(model_name)


def get_inputs():
    return [torch.rand(8, config["width"])]


def get_init_inputs():
    return [model_name, config]
"""

TASK = LOADS + _MODEL + _INPUTS

SAME = LOADS + _MODEL.replace("class Model(", "class ModelNew(")

ATTACKER = (
    SAME
    + """

def attempts(name):
    blob = found(name, "model.safetensors")
    real, cache = blob.resolve(), Path(os.environ["HF_HUB_CACHE"])
    Path("forged").write_bytes(b"forged")
    for folder in (cache, cache.parent, TOKENS):
        for token in ("token", "stored_tokens"):
            yield f"read {folder / token}", (folder / token).read_text
    for path in (cache / "new", real.with_name("new"), blob.with_name("new"), cache / "token"):
        yield f"make {path}", lambda: path.write_text("x")
    for path in (real, blob, cache / ("models--" + name.replace("/", "--")) / "refs" / "main"):
        yield f"write {path}", lambda: path.write_text("x")
        yield f"append to {path}", lambda: open(path, "ab")
        yield f"truncate {path}", lambda: os.truncate(path, 0)
        yield f"replace {path}", lambda: os.replace("forged", path)
        yield f"rename {path}", lambda: path.rename(path.with_name("gone"))
        yield f"remove {path}", path.unlink
    yield "link from inside", lambda: os.link(real, "mine")
    yield "link to outside", lambda: os.symlink("forged", real.with_name("theirs"))
    yield "reopen", lambda: open(f"/proc/self/fd/{os.open(real, os.O_RDONLY)}", "r+b")


class ModelNew(ModelNew):
    def __init__(self, model_name, config):
        for told, attempt in attempts(model_name):
            try:
                attempt()
            except OSError:
                continue
            raise RuntimeError("it could " + told)
        super().__init__(model_name, config)
"""
)
"""An honest model, if nothing that it tries succeeds. Wants ``TOKENS``, where they are."""
