# answerkey in a container: `docker build -t answerkey .`, then `docker run --rm answerkey` runs the demo, offline.
# Your own files: docker run --rm -v "$PWD:/work" -e OPENAI_API_KEY answerkey run questions.jsonl --model gpt-4.1-nano
# tests/contract/test_docker.py runs these lines in a fresh environment; the image itself has not been built.
FROM python:3.12-slim
WORKDIR /app
COPY requirements/run.lock requirements/run.lock
RUN pip install --no-cache-dir --require-hashes -r requirements/run.lock
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip install --no-cache-dir --no-deps --no-build-isolation . && rm -r src
RUN install -d -m 1777 /work
ENV HOME=/work
WORKDIR /work
USER 1000:1000
ENTRYPOINT ["answerkey"]
CMD ["demo"]
