package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/qrtz-go/qrtz/internal/proof/bench"
	"github.com/qrtz-go/qrtz/internal/servers/child"
)

// program is a server program that runs in a temporary directory, for as long as this process at most.
type program struct {
	*child.Process
	dir string
	log tail
}

// begin starts it. It is to end orderly on a signal.
func (p *program) begin(as *syscall.Credential, path string, args ...string) (err error) {
	cmd := exec.Command(path, args...) //nolint:noctx // it is stopped by a signal
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = p.dir, &p.log, &p.log, attr(as)
	p.Process, err = child.Start(cmd)
	return err
}

// await waits until it answers.
func (p *program) await(ctx context.Context, answers func() error) error {
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	for {
		err := answers()
		if err == nil {
			return nil
		}
		if !p.Running() {
			return fmt.Errorf("%w\n%s", errEnded, p.log.String())
		}
		if !sleep(ctx, 50*time.Millisecond) {
			return fmt.Errorf("%w\n%s", err, p.log.String())
		}
	}
}

// end stops it by a signal, or kills it, and removes its directory.
func (p *program) end(s os.Signal) {
	if p.Process != nil {
		p.Signal(s)
		select {
		case <-p.Done():
		case <-time.After(10 * time.Second):
			p.Kill()
		}
	}
	_ = os.RemoveAll(p.dir)
}

// family is the processor time of a process and of its children, those that have ended included.
func family(pid int) time.Duration {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	all := bench.ProcessorTime(pid) + reaped(string(stat))
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, path := range tasks {
		text, _ := os.ReadFile(path)
		for _, one := range strings.Fields(string(text)) {
			if n, err := strconv.Atoi(one); err == nil {
				all += bench.ProcessorTime(n)
			}
		}
	}
	return all
}

// reaped adds user and system time of the children that have ended, in the text of /proc/PID/stat.
func reaped(stat string) time.Duration {
	f := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(f) < 15 {
		return 0
	}
	user, _ := strconv.ParseInt(f[13], 10, 64)
	system, _ := strconv.ParseInt(f[14], 10, 64)
	return time.Duration(user+system) * (time.Second / 100) // the unit there is USER_HZ
}

// freePort finds a port on the loopback interface that is free now.
func freePort(ctx context.Context) (int, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// errAbsent is what a peer says that cannot be measured here, with what to install.
var errAbsent = errors.New("not here")

func absent(what, install string) error {
	return fmt.Errorf("%w: %s is missing (Debian: apt-get install %s, or PEERS=install)", errAbsent, what, install)
}

// find finds a program on the path or in folders, of which there may be several that fit a pattern: the last one counts.
func find(name string, patterns ...string) (string, bool) {
	if path, err := exec.LookPath(name); err == nil {
		return path, true
	}
	for _, pattern := range patterns {
		found, _ := filepath.Glob(filepath.Join(pattern, name))
		if len(found) > 0 {
			return slices.Max(found), true
		}
	}
	return "", false
}

// account is who a server runs as that refuses to run as root: nil if this process is not root's.
func account(name string) (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return nil, fmt.Errorf("%w: it refuses to run as root, and there is no user %s to run it as", errAbsent, name)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// directory makes a temporary directory of an account.
func directory(name string, of *syscall.Credential) (string, error) {
	dir, err := os.MkdirTemp("", "qrtz-peers-"+name+"-")
	if err != nil || of == nil {
		return dir, err
	}
	return dir, os.Chown(dir, int(of.Uid), int(of.Gid))
}

func password() string { return rand.Text() }
