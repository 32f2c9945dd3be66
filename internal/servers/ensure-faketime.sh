#!/usr/bin/env bash
# Installs Debian's libfaketime when root and it is not there, for the torture's fault "step clock". Without it that fault does
# nothing, and says so.
set -euo pipefail

compgen -G '/usr/lib/*/faketime/libfaketimeMT.so.1' >/dev/null && exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
	echo "no libfaketime: the database's clock will not step (Debian, Ubuntu: sudo apt-get install libfaketime)" >&2
	exit 0
fi
export DEBIAN_FRONTEND=noninteractive
apt-get -q update </dev/null && apt-get -q install -y --no-install-recommends libfaketime </dev/null ||
	echo "no libfaketime: the database's clock will not step" >&2
