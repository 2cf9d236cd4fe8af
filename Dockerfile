# kdissect with the Java that its reports need. Captures are mounted:
#   docker build -t kdissect .
#   docker run --rm -v "$PWD:/captures" kdissect incident.pcap --html report.html
FROM python:3.13-slim-bookworm

RUN apt-get update \
    && apt-get install -y --no-install-recommends openjdk-17-jre-headless \
    && rm -rf /var/lib/apt/lists/*

COPY . /tmp/kdissect
RUN pip install --no-cache-dir /tmp/kdissect && rm -rf /tmp/kdissect

# Whoever runs it: compiled loops and temporary files have a place that everybody may write. A user without a
# name in /etc/passwd needs that file of the host too (see docs/getting-started.md).
ENV XDG_CACHE_HOME=/var/cache/kdissect HOME=/tmp
# Loops are compiled here once, and the archive of Spark's classes is made: what a container keeps in its cache ends with it.
# The background program that makes the archive holds a lock until it has ended.
RUN mkdir -p /var/cache/kdissect && chmod 1777 /var/cache/kdissect \
    && python -m kdissect.spark.startup.compile_kernels 0 \
    && kdissect analyze --quiet "$(python -c 'import kdissect; print(*kdissect.__path__)')/spark/startup/warmup.pcap" \
    && flock /var/cache/kdissect/kdissect/classes-*.lock true \
    && test -s /var/cache/kdissect/kdissect/classes-*.jsa \
    && chmod -R a+rX /var/cache/kdissect/kdissect

WORKDIR /captures
ENTRYPOINT ["kdissect"]
CMD ["--help"]
