# Builds memoryd, and an image of it alone: the binary, its vocabularies, time zones and vectors of words, the shared
# libraries it is linked to. No shell, no package manager, not root; only /var/lib/memoryd is ever written.
#
# BASE may be pinned by digest. Where a proxy signs TLS itself, pass its certificates along:
# --secret id=ca_bundle,src=FILE. tools/image.sh does all of it.
ARG BASE=debian:13-slim

FROM ${BASE} AS build
WORKDIR /src
COPY tools/packages.txt tools/install_packages.sh tools/
RUN tools/install_packages.sh build debian13 && apt-get clean
COPY CMakeLists.txt CMakePresets.json ./
COPY cmake cmake
COPY tools/tokens tools/tokens
COPY proto proto
COPY core core
COPY cli cli
COPY server server
COPY ui ui
# Compilers at once; empty for one per core.
ARG JOBS=
# OFF leaves the vectors of words out, of which docs/DEPENDENCIES.md says whose they are: Query then ranks by
# words alone.
ARG WORD_VECTORS=ON
# The commit it is built of, by tools/image.sh.
ARG REVISION=unknown
# The cache keeps ccache's objects and the vocabularies from one build to the next.
RUN --mount=type=cache,target=/root/.cache --mount=type=secret,id=ca_bundle \
    if [ -e /run/secrets/ca_bundle ]; then export PIP_CERT=/run/secrets/ca_bundle; fi \
 && cmake --preset release -B /build -DBUILD_TESTING=OFF -DMEMORYD_CLIENT=OFF -DMEMORYD_WERROR=OFF -DMEMORYD_OPENTELEMETRY=ON \
      -DMEMORYD_REVISION=${REVISION} -DMEMORYD_INSTALL_WORD_VECTORS=${WORD_VECTORS} \
 && cmake --build /build --target memoryd --target memoryd_vocabulary --target memoryd_zones ${JOBS:+-j ${JOBS}} \
 && cmake --install /build --prefix /opt/memoryd --strip
COPY tools/runtime_root.sh tools/sbom.py tools/
ARG SOURCE_DATE_EPOCH=0
RUN tools/runtime_root.sh /opt/memoryd/bin/memoryd /runtime \
 && tools/sbom.py /runtime/root /opt/memoryd >/tmp/memoryd.spdx.json \
 && install -D -m 0644 /tmp/memoryd.spdx.json /opt/memoryd/share/sbom/memoryd.spdx.json

FROM scratch
# What changes least comes first, so that a new version is one small layer to pull.
COPY --from=build /runtime/root /
COPY --from=build --chown=65532:65532 /runtime/state /var/lib/memoryd
COPY --from=build /opt/memoryd/share /opt/memoryd/share
COPY --from=build /opt/memoryd/bin /opt/memoryd/bin
USER 65532:65532
VOLUME /var/lib/memoryd
ENV PATH=/opt/memoryd/bin \
    STATE_DIRECTORY=/var/lib/memoryd
# Listens on loopback unless MEMORYD_LISTEN says otherwise.
EXPOSE 50051 50080
# That of CMakeLists.txt; tests/image compares.
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="memoryd" \
      org.opencontainers.image.description="The memory server that an LLM agent runs beside it" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.licenses="Apache-2.0"
ENTRYPOINT ["/opt/memoryd/bin/memoryd"]
