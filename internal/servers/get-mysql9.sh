#!/usr/bin/env bash
# Makes sure that real MySQL 9 is unpacked (not installed) on a Debian machine whose own
# release has none, and prints the path of a server program for QRTZ_MYSQLD:
#
#   QRTZ_MYSQLD=$(internal/servers/get-mysql9.sh) make test
#
# It comes from the sid suite of this machine's Debian mirror, with every library it needs,
# the C library too: 60 MB to download, 480 MB in ${QRTZ_MYSQL9_HOME:-~/.cache/qrtz-mysql9}.
set -euo pipefail

home=${QRTZ_MYSQL9_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/qrtz-mysql9}
root=$home/root apt=$home/apt program=$home/mysqld

fail() {
	echo "No MySQL 9: $1. Set QRTZ_MYSQLD to a mysqld of your own." >&2
	exit 1
}

# unpack keeps apt's files apart from the machine's: nothing is installed or configured.
unpack() {
	[ "$(dpkg --print-architecture 2>/dev/null)" = amd64 ] || fail "it is fetched for Debian on amd64 only"
	mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -E '/debian/?$' | head -n 1) ||
		fail "apt knows no Debian mirror (apt-get update may help)"
	mkdir -p "$apt"/{etc/sources.list.d,etc/preferences.d,etc/apt.conf.d,state/lists/partial,cache/archives/partial} "$root.new"
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror sid main" >"$apt/etc/sources.list"
	: >"$apt/state/status"
	# A mirror may lag behind its Valid-Until; signatures are checked all the same.
	cat >"$apt/apt.conf" <<-TXT
		Dir::Etc "$apt/etc"; Dir::Etc::sourcelist "$apt/etc/sources.list"; Dir::Etc::sourceparts "$apt/etc/sources.list.d";
		Dir::State "$apt/state"; Dir::State::status "$apt/state/status"; Dir::Cache "$apt/cache"; APT::Architecture "amd64";
		Acquire::Check-Valid-Until "false"; Acquire::Languages "none"; APT::Sandbox::User "root";
	TXT
	export APT_CONFIG=$apt/apt.conf
	apt-get -q update >&2 || fail "its package list cannot be read from $mirror"
	apt-get -q install -y --download-only --no-install-recommends mysql-server-core >&2 || fail "it cannot be downloaded from $mirror"
	for package in "$apt"/cache/archives/*.deb; do
		case ${package##*/} in perl* | libperl* | libdb5* | libgdbm*) continue ;; esac
		dpkg-deb -x "$package" "$root.new"
	done
	rm -rf "$root" "$apt/cache"
	mv "$root.new" "$root"
}

[ -x "$root/usr/sbin/mysqld" ] || unpack

# Debian's mysqld of sid needs the C library of sid, and the loader that belongs to it.
lib=$root/usr/lib/x86_64-linux-gnu
cat >"$program.$$" <<-TXT
	#!/bin/sh
	exec '$lib/ld-linux-x86-64.so.2' --library-path '$lib' '$root/usr/sbin/mysqld' "\$@" \\
		--lc-messages-dir='$root/usr/share/mysql' --character-sets-dir='$root/usr/share/mysql/charsets'
TXT
chmod +x "$program.$$"
mv "$program.$$" "$program"
"$program" --no-defaults --version >/dev/null || fail "$program does not run"
echo "$program"
