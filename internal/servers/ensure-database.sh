#!/usr/bin/env bash
# Makes sure that this machine has a database server program to start private
# servers with: installs Debian's mariadb-server when root and none is found, else
# says what to install. Does nothing, in milliseconds, when there is one.
#
# The whole package, not only mariadb-server-core (which would do): it is what the
# README names and it brings the client that `make db/up` tells people to use. Its
# service would listen on port 3306; while the package is set up, policy-rc.d
# forbids any service to start, and afterwards the service is disabled.
set -euo pipefail

found() {
	[ -n "${QRTZ_TEST_DSN:-}${QRTZ_MYSQLD:-}" ] && return
	PATH=$PATH:/usr/sbin:/usr/libexec:/usr/local/sbin
	command -v mariadbd >/dev/null || command -v mysqld >/dev/null
}

found && exit 0

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
	cat >&2 <<-'TXT'
		Neither mariadbd nor mysqld found. Install one, it need not run:
		  Debian, Ubuntu:  sudo apt-get install mariadb-server
		  Fedora:          sudo dnf install mariadb-server
		  macOS:           brew install mariadb
		or set QRTZ_TEST_DSN to a server to test on, as in 'root@tcp(127.0.0.1:3307)/'.
	TXT
	exit 1
fi

echo "Installing mariadb-server; it will not be started." >&2
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
	trap 'rm -f $policy' EXIT
	printf '#!/bin/sh\nexit 101\n' >$policy
	chmod +x $policy
else
	"$policy" mariadb start >/dev/null 2>&1 && echo "warning: $policy exists and may let the service start" >&2
fi
export DEBIAN_FRONTEND=noninteractive
apt-get -q update </dev/null
apt-get -q install -y --no-install-recommends mariadb-server </dev/null
if [ -d /run/systemd/system ]; then
	systemctl disable mariadb >/dev/null 2>&1 || true
fi
found
