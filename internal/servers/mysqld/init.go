package mysqld

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// initialise creates the data directory unless it exists. It works in a second
// directory and renames it at the end, so that a kill in the middle leaves
// nothing that looks finished. Only the holder of the directory's lock calls it.
func (s *Server) initialise(ctx context.Context, lock *os.File) error {
	if _, err := os.Stat(s.dataDir()); err == nil {
		return nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	tmp := s.dataDir() + ".new"
	if err := os.RemoveAll(tmp); err != nil {
		return err
	}
	if err := os.Mkdir(tmp, 0o700); err != nil {
		return err
	}
	if err := s.account.own(tmp); err != nil {
		return err
	}
	if s.opts.Empty {
		return os.Rename(tmp, s.dataDir())
	}
	cmd, err := s.initCommand(ctx, tmp)
	if err != nil {
		return err
	}
	cmd.Dir, cmd.Env = s.opts.Dir, s.environ()
	cmd.ExtraFiles = []*os.File{lock}
	cmd.SysProcAttr = sysProcAttr(false, s.account)
	cmd.WaitDelay = time.Second // the script's children may hold its output open
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initialise %s with %s: %w\n%s", s.dataDir(), cmd.Path, err, out)
	}
	return os.Rename(tmp, s.dataDir())
}

// initCommand is mariadb-install-db, or mysqld itself for MySQL. Both leave a
// root@localhost without a password and real grant tables: 0.3-0.5 s for
// MariaDB, 3 s for MySQL. (MariaDB also starts in a directory with nothing but an
// empty mysql/ and --skip-grant-tables, in 0.1 s, but then has no users, no GRANT and
// no events, so that a test of a restricted account cannot be written.)
func (s *Server) initCommand(ctx context.Context, data string) (*exec.Cmd, error) {
	if !s.mariadb {
		return exec.CommandContext(ctx, s.path, append([]string{
			"--no-defaults", "--initialize-insecure", "--datadir=" + data,
		}, append(s.userArgs(), s.durability()...)...)...), nil
	}
	// The script cannot cope with a space in the path, hence the relative one.
	dir := filepath.Dir(s.path)
	script, ok := lookup("mariadb-install-db", dir, filepath.Join(dir, "../bin"), filepath.Join(dir, "../scripts"), "/usr/bin")
	if !ok {
		return nil, fmt.Errorf("mariadb-install-db not found on PATH or near %s: install the complete mariadb-server package", s.path)
	}
	return exec.CommandContext(ctx, script, append([]string{
		"--no-defaults", "--datadir=./" + filepath.Base(data), "--auth-root-authentication-method=normal",
		"--force", // also where the machine's own name does not resolve, as in a bare container
		"--skip-test-db", "--skip-name-resolve", "--innodb-log-file-size=16M",
	}, append(s.userArgs(), s.durability()...)...)...), nil
}

// environ gives the server a temporary directory of its own: a server deletes, when it
// starts, the temporary tables it finds there, also those of one that runs.
func (s *Server) environ() []string { return append(os.Environ(), "TMPDIR="+s.tmpDir()) }

// userArgs lets the server run as root, which it refuses unless told.
func (s *Server) userArgs() []string {
	if os.Geteuid() == 0 && s.account == nil {
		return []string{"--user=root"}
	}
	return nil
}

// durability trades safety against a power cut for speed in throwaway servers.
// Both settings survive the death of the server process.
func (s *Server) durability() []string {
	if s.opts.Durable {
		return []string{"--innodb-flush-log-at-trx-commit=1"}
	}
	return []string{"--innodb-flush-log-at-trx-commit=2", "--innodb-doublewrite=0", "--innodb-flush-method=nosync"}
}

// args is the server's command line; Options.Args come last and win.
func (s *Server) args() []string {
	args := append([]string{
		"--no-defaults",
		"--datadir=" + s.dataDir(),
		"--socket=" + s.socket,
		"--pid-file=" + s.pidFile(),
		"--skip-log-bin",
		"--skip-name-resolve",
		"--performance-schema=OFF",
		"--max-connections=500",
		"--innodb-buffer-pool-size=64M",
	}, append(s.userArgs(), s.durability()...)...)
	if s.mariadb {
		args = append(args, "--innodb-log-file-size=16M")
	} else {
		args = append(args, "--mysqlx=OFF", "--secure-file-priv=NULL")
	}
	if s.opts.Port == 0 {
		args = append(args, "--skip-networking")
	} else {
		args = append(args, "--bind-address=127.0.0.1", fmt.Sprintf("--port=%d", s.opts.Port))
	}
	return append(args, s.opts.Args...)
}
