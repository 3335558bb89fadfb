# Builds memoryd and an image with it, its vocabulary, and the shared libraries it is linked to.
ARG BASE=debian:12-slim

FROM ${BASE} AS build
WORKDIR /src
COPY tools/packages.txt tools/install_packages.sh tools/
RUN tools/install_packages.sh build && apt-get clean
COPY . .
RUN cmake -S . -B /build -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=OFF \
 && cmake --build /build --target memoryd memoryd_vocabulary \
 && cmake --install /build --prefix /opt/memoryd --strip
# The packages of the libraries the binary names, so that one file serves any Debian.
RUN objdump -p /opt/memoryd/bin/memoryd | awk '$1 == "NEEDED" { print "*/" $2 }' \
  | xargs dpkg-query -S | cut -d: -f1 | sort -u >/runtime-packages

FROM ${BASE}
RUN --mount=type=bind,from=build,source=/runtime-packages,target=/runtime-packages \
    apt-get update \
 && xargs apt-get install -y --no-install-recommends ca-certificates </runtime-packages \
 && rm -rf /var/lib/apt/lists/* \
 && install -d -o 65532 -g 65532 -m 0700 /var/lib/memoryd
COPY --from=build /opt/memoryd /opt/memoryd
USER 65532:65532
VOLUME /var/lib/memoryd
ENV MEMORYD_STORE=sqlite:/var/lib/memoryd/memoryd.db
# Listens on loopback unless --listen or MEMORYD_LISTEN says otherwise.
EXPOSE 50051
ENTRYPOINT ["/opt/memoryd/bin/memoryd"]
