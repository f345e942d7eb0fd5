"""Models of random weights with the small model's tokenizer, and one that only its own code can run."""

import json
import shutil
from pathlib import Path
from textwrap import dedent
from typing import Any

import torch
import transformers
from safetensors.torch import save_file

TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
LLAMA = {
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 64,
}
GPT2 = {"n_embd": 64, "n_layer": 2, "n_head": 2, "n_positions": 64}
OPT = {
    "hidden_size": 64,
    "ffn_dim": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": 64,
    "word_embed_proj_dim": 64,
}

# two classes that no release of transformers has
CONFIGURATION = """
    from transformers import PreTrainedConfig

    class OwnConfig(PreTrainedConfig):
        model_type = "own"

        def __init__(self, vocab_size=49152, hidden_size=16, max_position_embeddings=64, **kwargs):
            self.vocab_size, self.hidden_size = vocab_size, hidden_size
            self.max_position_embeddings = max_position_embeddings
            self.num_hidden_layers = 1
            super().__init__(**kwargs)
"""
MODELING = """
    import torch
    from torch import nn
    from transformers import GenerationMixin, PreTrainedModel
    from transformers.modeling_outputs import CausalLMOutput

    from .configuration_own import OwnConfig

    class OwnForCausalLM(PreTrainedModel, GenerationMixin):
        config_class = OwnConfig

        def __init__(self, config):
            super().__init__(config)
            self.embed = nn.Embedding(config.vocab_size, config.hidden_size)
            self.pos_emb = nn.Parameter(torch.randn(1, config.max_position_embeddings, config.hidden_size))
            self.head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
            self.post_init()

        def get_input_embeddings(self):
            return self.embed

        # knows nothing of states, nor of what the last tokens are wanted for
        def forward(self, input_ids, attention_mask=None, **kwargs):
            hidden = self.embed(input_ids) + self.pos_emb[:, : input_ids.shape[1]]
            mean = hidden.cumsum(1) / torch.arange(1, input_ids.shape[1] + 1, device=hidden.device)[:, None]
            return CausalLMOutput(logits=self.head(torch.tanh(mean)))

        def prepare_inputs_for_generation(self, input_ids, **kwargs):
            return {"input_ids": input_ids}
"""


def write(folder: Path, small_model_path: Path, config_class: str, **sizes: Any) -> Path:
    """Save a model of random weights in some architecture."""
    torch.manual_seed(0)
    config = getattr(transformers, config_class)(
        vocab_size=49152, bos_token_id=1, eos_token_id=2, pad_token_id=2, **sizes
    )
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    with torch.no_grad():
        for weights in model.parameters():
            # as they are made, they answer almost the same whatever the prompt
            weights.mul_(4) if weights.ndim > 1 else None
    model.save_pretrained(folder)
    for name in TOKENIZER:
        shutil.copy(small_model_path / name, folder)
    return folder


def write_own(folder: Path, small_model_path: Path) -> Path:
    """Save a model that only the code beside its weights can run."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "configuration_own.py").write_text(dedent(CONFIGURATION))
    (folder / "modeling_own.py").write_text(dedent(MODELING))
    config = {
        "model_type": "own",
        "architectures": ["OwnForCausalLM"],
        "auto_map": {
            "AutoConfig": "configuration_own.OwnConfig",
            "AutoModelForCausalLM": "modeling_own.OwnForCausalLM",
        },
        "vocab_size": 49152,
        "hidden_size": 16,
        "max_position_embeddings": 64,
    }
    (folder / "config.json").write_text(json.dumps(config))
    torch.manual_seed(0)
    weights = {
        "embed.weight": torch.randn(49152, 16),
        "pos_emb": torch.randn(1, 64, 16),
        "head.weight": torch.randn(49152, 16),
    }
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    for name in TOKENIZER:
        shutil.copy(small_model_path / name, folder)
    return folder
