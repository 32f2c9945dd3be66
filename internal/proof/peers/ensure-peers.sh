#!/usr/bin/env bash
# Installs what Quartz, River and asynq need, on Debian, when root and asked to: PEERS=install. Else it does nothing, and the
# benchmark says what is missing. No service is started: while the packages are set up, policy-rc.d forbids it.
set -euo pipefail

[ "${PEERS:-}" = install ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
	echo "PEERS=install needs root and apt-get" >&2
	exit 1
fi
missing=()
for package in default-jdk-headless libquartz2-java libmariadb-java libhikaricp-java libslf4j-java postgresql redis-server; do
	case $package in
	default-jdk-headless) command -v javac >/dev/null ;;
	*) dpkg-query -W -f '${Status}' $package 2>/dev/null | grep -q 'ok installed' ;;
	esac || missing+=($package)
done
[ ${#missing[@]} = 0 ] && exit 0
echo "Installing ${missing[*]}; nothing of it will be started." >&2
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
	trap 'rm -f $policy' EXIT
	printf '#!/bin/sh\nexit 101\n' >$policy
	chmod +x $policy
fi
export DEBIAN_FRONTEND=noninteractive
apt-get -q update </dev/null
apt-get -q install -y --no-install-recommends "${missing[@]}" </dev/null
if [ -d /run/systemd/system ]; then
	for service in postgresql redis-server; do
		case " ${missing[*]} " in *" $service "*) systemctl disable $service >/dev/null 2>&1 || true ;; esac
	done
fi
