"""Turns a GGUF file into a folder that vLLM can serve: configuration, tokenizer with its chat template, weights.

The weights are dequantised to bfloat16 and written as safetensors. vLLM itself reads no GGUF. Run by
`npm run up -- --engine vllm`, or by hand:

    python tools/gguf_to_safetensors.py FILE.gguf FOLDER

The folder must not be there yet. Needs what requirements/vllm-cpu.txt or vllm-gpu.txt names. If it fails, the last line
of stderr says why.
"""

import argparse
import sys
from pathlib import Path


def convert(gguf: Path, folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    # Without dequantize=True the model keeps the file's packed weights, and saving it raises.
    quantisation = GgufConfig(gguf_file=gguf.name, dequantize=True)
    source = str(gguf.parent)
    model = AutoModelForCausalLM.from_pretrained(
        source, gguf_file=gguf.name, dtype=torch.bfloat16, quantization_config=quantisation
    )
    tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=gguf.name)
    if getattr(tokenizer, "chat_template", None) is None:
        raise ValueError("the file has no chat template, without which no chat can be served")
    folder.mkdir()
    tokenizer.save_pretrained(str(folder))
    model.save_pretrained(str(folder))


def main() -> int:
    parser = argparse.ArgumentParser(description="GGUF to safetensors, dequantised to bfloat16")
    parser.add_argument("gguf", type=Path)
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    try:
        convert(arguments.gguf.absolute(), arguments.folder)
    except Exception as error:
        text = " ".join(str(error).split())
        sys.stderr.write(f"error: {type(error).__name__}: {text[:400]}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
