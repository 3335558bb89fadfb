#!/bin/bash
# with_postgres.sh COMMAND [ARG...]
# Runs COMMAND beside a private PostgreSQL that is gone when it ends, and exits with its status.
#
# COMMAND finds the server's URL in MEMORYD_TEST_POSTGRES: superuser `postgres`, without a password,
# on 127.0.0.1 and a free port; the UNIX socket's folder is in MEMORYD_TEST_POSTGRES_SOCKETS and
# pg_ctl's data folder in MEMORYD_TEST_POSTGRES_DATA. As root the server runs as another user, since
# PostgreSQL refuses root.
#   MEMORYD_TEST_POSTGRES_PARENT   folder that gets the cluster (default $TMPDIR or /tmp)
#   MEMORYD_TEST_POSTGRES_OPTIONS  more `-c name=value` options, after the defaults
set -euo pipefail
[ $# -gt 0 ] || { echo "usage: $0 COMMAND [ARG...]" >&2; exit 2; }
# memoryd refuses variables of its prefix that it does not know, all but MEMORYD_TEST_*.
if [ -n "${MEMORYD_POSTGRES_PARENT:-}${MEMORYD_POSTGRES_OPTIONS:-}" ]; then
  echo "$0: use MEMORYD_TEST_POSTGRES_PARENT and MEMORYD_TEST_POSTGRES_OPTIONS" >&2
  exit 2
fi

bin=$(printf '%s\n' /usr/lib/postgresql/*/bin | sort -V | tail -n 1)
[ -x "$bin/initdb" ] || { echo "$0: no PostgreSQL server under /usr/lib/postgresql" >&2; exit 1; }

folder=$(mktemp -d "${MEMORYD_TEST_POSTGRES_PARENT:-${TMPDIR:-/tmp}}/memoryd-postgres.XXXXXX")
as_server=()
if [ "$(id -u)" -eq 0 ]; then
  user=postgres
  id "$user" >/dev/null 2>&1 || user=nobody
  chown "$user" "$folder"
  as_server=(setpriv --reuid="$user" --regid="$(id -g "$user")" --init-groups)
fi
server() { (cd "$folder" && exec "${as_server[@]}" "$bin/$1" "${@:2}"); }

command_pid=
# shellcheck disable=SC2317  # The trap invokes it.
cleanup() {
  trap - EXIT
  trap '' INT TERM HUP
  if [ -n "$command_pid" ]; then
    kill -TERM -- "-$command_pid" 2>/dev/null || true
  fi
  server pg_ctl -D "$folder/data" -m immediate -w stop >/dev/null 2>&1 || true
  rm -rf "$folder"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

server initdb -D "$folder/data" -A trust -U postgres -E UTF8 --locale=C.UTF-8 --no-sync \
  >"$folder/initdb.log" 2>&1 || { cat "$folder/initdb.log" >&2; exit 1; }

# Durability against a crash of the machine is not what the tests test: no fsync.
options="-c listen_addresses=127.0.0.1 -c unix_socket_directories=$folder -c max_connections=200"
options+=" -c fsync=off -c full_page_writes=off -c max_prepared_transactions=0"
options+=" ${MEMORYD_TEST_POSTGRES_OPTIONS:-}"

# Somebody else may take the port between the look and the start: then the next one.
for attempt in 1 2 3 4 5; do
  port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  if server pg_ctl -D "$folder/data" -l "$folder/server.log" -w -t 60 -o "$options -p $port" start \
      >/dev/null 2>&1; then
    break
  fi
  [ "$attempt" -lt 5 ] || { cat "$folder/server.log" >&2; exit 1; }
done

export MEMORYD_TEST_POSTGRES="postgresql://postgres@127.0.0.1:$port/postgres"
export MEMORYD_TEST_POSTGRES_SOCKETS="$folder"
export MEMORYD_TEST_POSTGRES_DATA="$folder/data"

# Job control gives the command a process group of its own, so that a signal to this script alone
# ends all of it, and `wait` returns at once when one comes.
set -m
"$@" </dev/null &
command_pid=$!
set +m
status=0
wait "$command_pid" || status=$?
command_pid=
exit "$status"
