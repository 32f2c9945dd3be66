#!/usr/bin/env bash
# Makes sure that this machine can run a Galera cluster: installs Debian's galera-4 and rsync when root and they
# are not there, else says what to install.
set -euo pipefail

command -v rsync >/dev/null && compgen -G '/usr/lib*/galera*/libgalera_smm.so' >/dev/null && exit 0

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
	echo "A Galera cluster needs MariaDB's server, the Galera library and rsync: sudo apt-get install mariadb-server galera-4 rsync" >&2
	exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get -q update </dev/null
apt-get -q install -y --no-install-recommends galera-4 rsync </dev/null
