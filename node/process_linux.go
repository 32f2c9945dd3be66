package node

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// whoAmI is the identity of this process. It is not known where /proc is missing, or shows another namespace than ours.
func whoAmI() identity {
	me := identity{pid: int64(os.Getpid())}
	if self, err := os.Readlink("/proc/self"); err != nil || self != strconv.FormatInt(me.pid, 10) {
		return me
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return me
	}
	namespace, err := os.Stat("/proc/self/ns/pid")
	if err != nil {
		return me
	}
	inode, ok := namespace.Sys().(*syscall.Stat_t)
	if !ok {
		return me
	}
	start, ok := processStart(me.pid)
	if !ok {
		return me
	}
	id := strings.TrimSpace(string(boot))
	me.bootID, me.namespace, me.start = id, int64(inode.Ino), start //nolint:gosec // the numbers of namespaces have 32 bits
	me.known = id != "" && len(id) <= 40
	return me
}

// processLives tells whether a process of this namespace is there. That it is not, its signals say: /proc may hide those of
// other users.
func processLives(pid int64) bool {
	if pid < 1 || pid > 1<<31-1 {
		return true // that is no process: a person wrote it there
	}
	err := syscall.Kill(int(pid), 0)
	return !errors.Is(err, syscall.ESRCH)
}

// processStart is when a process of this namespace started, in clock ticks since the machine's boot.
func processStart(pid int64) (int64, bool) {
	stat, err := os.ReadFile("/proc/" + strconv.FormatInt(pid, 10) + "/stat")
	if err != nil {
		return 0, false
	}
	_, after, found := bytes.Cut(stat[max(0, bytes.LastIndexByte(stat, ')')):], []byte(") ")) // the name before may hold anything
	fields := bytes.Fields(after)
	const start = 22 - 3 // the first field after the name is the third
	if !found || len(fields) <= start {
		return 0, false
	}
	ticks, err := strconv.ParseInt(string(fields[start]), 10, 64)
	return ticks, err == nil
}
