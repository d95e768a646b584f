"""Token files of nqd (docs/data.md) and of llm.c from the same numbers."""

import array
import hashlib
import json
import random
import string
import struct
import sys

LLMC_MAGIC, LLMC_VERSION, LLMC_HEADER = 20240520, 1, 256  # llm.c, llmc/dataloader.h


def words(count, seed=1):
    """`count` bytes of lines of random words: text that a small model learns from."""
    source = random.Random(seed)
    known = ["".join(source.choices(string.ascii_lowercase, k=source.randint(2, 8))) for _ in range(500)]
    text = ""
    while len(text) < count:
        text += " ".join(source.choices(known, k=200)) + "\n"
    return array.array("B", text[:count].encode("ascii"))


def uniform(count, vocab, seed=1):
    """`count` numbers below `vocab`, which takes 2 bytes a token."""
    drawn = array.array("H", random.Random(seed).randbytes(2 * count))
    return array.array("H", (one % vocab for one in drawn))


def payload(tokens):
    if sys.byteorder == "big" and tokens.itemsize > 1:
        tokens = tokens[:]
        tokens.byteswap()
    return tokens.tobytes()


def write_dataset(folder, vocab, train, heldout):
    """A folder for data.path."""
    folder.mkdir(parents=True, exist_ok=True)
    files, documents, everything = {}, [], hashlib.sha256()
    for split, tokens in (("train", train), ("heldout", heldout)):
        data = payload(tokens)
        digest = hashlib.sha256(data)
        everything.update(data)
        header = struct.pack("<8sIIQQ32s", b"NQDTOKEN", 1, tokens.itemsize, vocab, len(tokens), digest.digest())
        (folder / f"{split}.tokens").write_bytes(header + data)
        files[split] = {"tokens": len(tokens), "sha256": digest.hexdigest()}
        documents.append({"path": split, "split": split, "offset": 0, **files[split]})
    index = {"format": "nqd-dataset", "version": 1, "tokenizer": "none", "vocab": vocab,
             "digest": everything.hexdigest(), "files": files, "documents": documents}
    (folder / "dataset.json").write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")


def write_llmc(path, tokens):
    header = array.array("i", [LLMC_MAGIC, LLMC_VERSION, len(tokens)])
    header.extend([0] * (LLMC_HEADER - len(header)))
    path.write_bytes(header.tobytes() + tokens.tobytes())
