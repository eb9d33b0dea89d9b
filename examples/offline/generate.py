"""Generate completions offline with vLLM: in this process, or in actors of Ray Data. No server is
needed.

    answerkey export-prompts my-project -o prompts.parquet
    python generate.py prompts.parquet completions.parquet --model Qwen/Qwen3-8B
    answerkey score my-project --completions completions.parquet

Several GPUs: `--workers 4` starts four engines through Ray Data, on one machine or on a cluster.
Base models: `--text` sends the column `prompt` as it is; without it the model's chat template is
applied.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

BATCH_ROWS = 4_096


class Generator:
    """An engine that answers tables of prompts.

    What is no prompt (`sample_id`, `trial`, …) stays.
    """

    def __init__(self, model: str, *, is_text: bool, sampling: dict[str, Any]) -> None:
        from vllm import LLM, SamplingParams

        self.llm, self.is_text, self.sampling = (
            LLM(model=model),
            is_text,
            SamplingParams(**sampling),
        )

    def __call__(self, prompts: pa.Table) -> pa.Table:
        """Return the table with `completion` and `finish_reason` in place of the prompts."""
        if self.is_text:
            outputs = self.llm.generate(prompts["prompt"].to_pylist(), self.sampling)
        else:
            chats = [[read_parts(one) for one in chat] for chat in prompts["messages"].to_pylist()]
            outputs = self.llm.chat(chats, self.sampling)
        first = [output.outputs[0] for output in outputs]
        ids = prompts.drop_columns(["messages", "prompt"])
        ids = ids.append_column("completion", pa.array([one.text for one in first], pa.string()))
        return ids.append_column(
            "finish_reason", pa.array([one.finish_reason for one in first], pa.string())
        )


def read_parts(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message; the content of one with images is written as the JSON of its parts."""
    if message["content"].startswith('[{"type": "'):
        return {**message, "content": json.loads(message["content"])}
    return message


def generate(options: argparse.Namespace) -> Iterator[pa.Table]:
    """Yield completions, many at a time."""
    sampling = {"temperature": options.temperature, "max_tokens": options.max_tokens}
    chosen = {"model": options.model, "is_text": options.text, "sampling": sampling}
    if not options.workers:
        engine = Generator(**chosen)
        for batch in pq.ParquetFile(options.prompts).iter_batches(BATCH_ROWS):
            yield engine(pa.Table.from_batches([batch]))
        return
    import ray.data

    answered = ray.data.read_parquet(options.prompts).map_batches(
        Generator,
        fn_constructor_kwargs=chosen,
        batch_format="pyarrow",
        batch_size=BATCH_ROWS,
        compute=ray.data.ActorPoolStrategy(size=options.workers),
        num_gpus=options.gpus,
    )
    yield from answered.iter_batches(batch_format="pyarrow", batch_size=None)


def main(words: Sequence[str] | None = None) -> None:
    """Read the prompts, and write the completions as one Parquet file."""
    parser = argparse.ArgumentParser(description="Generate completions offline with vLLM.")
    parser.add_argument("prompts", help="Parquet file of `answerkey export-prompts`")
    parser.add_argument("out", help="Parquet file to write")
    parser.add_argument("--model", required=True, help="name or folder of the weights")
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--max-tokens", type=int, default=2048)
    parser.add_argument(
        "--text", action="store_true", help="send `prompt` as it is, for base models"
    )
    parser.add_argument(
        "--workers", type=int, default=0, help="engines of Ray Data; 0: vLLM in this process"
    )
    parser.add_argument("--gpus", type=float, default=1, help="GPUs of each worker")
    options = parser.parse_args(words)
    writer = None
    for table in generate(options):
        writer = writer or pq.ParquetWriter(options.out, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


if __name__ == "__main__":
    main()
