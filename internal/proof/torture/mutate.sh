#!/bin/bash
# Shows that the torture finds bugs: takes a safety mechanism out of a copy of the engine (mutations/NAME.patch), and
# tortures that until something is found wrong, with up to three seeds of a minute each.
#
#   internal/proof/torture/mutate.sh [NAME…]     all of them by default; SEEDS='11 12 13' JOBS=2
#   internal/proof/torture/mutate.sh --check     only whether all patches apply to the tree as it is
#
# A patch begins with what it breaks. One that says "Unseen: WHY" is not expected to be found. "Faults: KIND" has only those
# faults come. The exit code is 0 if all others were found.
set -euo pipefail
cd "$(dirname "$0")/../../.."
seeds=${SEEDS:-11 12 13}
logs=${LOGS:-$(mktemp -d /tmp/qrtz-mutations-XXXX)}

# mutate makes a copy of the tree with a patch applied, and builds the torture there.
mutate() { # PATCH DIR
	git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t "$2" &&
		(cd "$2" && git apply "$1" && cd internal/proof/torture && go build -o "$2/torture" .)
}

# try tortures one mutation, and prints what became of it.
try() { # NAME
	local name=$1 patch=$PWD/internal/proof/torture/mutations/$1.patch dir seed began verdict only
	only=$(sed -n 's/^Faults: //p' "$patch")
	dir=$(mktemp -d /tmp/qrtz-mutation-XXXX)
	# shellcheck disable=SC2064 # dir is known now
	trap "rm -rf '$dir'" EXIT
	mutate "$patch" "$dir" || { echo "$name: does not apply any more, or does not compile"; return 1; }
	for seed in $seeds; do
		began=$SECONDS
		if ! TMPDIR=$dir "$dir/torture" --duration 60s --seed "$seed" --only "$only" >"$logs/$name-$seed.log" 2>&1; then
			verdict=$(sed -n 's/^torture: //p' "$logs/$name-$seed.log" | tail -1)
			printf '%-24s caught   seed %s, after %2d s: %s\n' "$name" "$seed" $((SECONDS - began)) "${verdict#*wrong: }"
			return
		fi
	done
	if grep -q '^Unseen:' "$patch"; then
		printf '%-24s unseen   seeds %s\n' "$name" "$seeds"
		return
	fi
	printf '%-24s NOT      seeds %s\n' "$name" "$seeds"
	return 1
}

# check tells which patches do not apply any more.
check() {
	local patch stale=0
	for patch in internal/proof/torture/mutations/*.patch; do
		git apply --check "$patch" 2>/dev/null || { echo "$(basename "$patch" .patch): does not apply any more"; stale=1; }
	done
	return $stale
}

if [[ ${1-} == --check ]]; then
	check
	exit
fi
if [[ ${1-} == --one ]]; then
	try "$2"
	exit
fi
[[ $# -gt 0 ]] || set -- $(cd internal/proof/torture/mutations && ls -- *.patch | sed 's/\.patch$//')
echo "logs are in $logs"
export LOGS=$logs
printf '%s\n' "$@" | xargs -P "${JOBS:-2}" -n 1 internal/proof/torture/mutate.sh --one
