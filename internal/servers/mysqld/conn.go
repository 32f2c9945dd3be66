package mysqld

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/go-sql-driver/mysql"
)

// maxSocketPath is below the 104 bytes that a Unix socket path has on the
// strictest system (108 on Linux), its terminating zero included.
const maxSocketPath = 100

// dsn formats the DSN of root on a private server.
func dsn(network, addr, password, database string) string {
	cfg := mysql.NewConfig()
	cfg.User, cfg.Passwd, cfg.Net, cfg.Addr, cfg.DBName = "root", password, network, addr, database
	cfg.InterpolateParams = true
	return cfg.FormatDSN()
}

// TCP formats the DSN of root on the private server that listens on a port of 127.0.0.1.
func TCP(port int, password, database string) string {
	return dsn("tcp", fmt.Sprintf("127.0.0.1:%d", port), password, database)
}

// socketPath returns where the server of dir has its socket: in dir itself or,
// if that path is too long for a socket or unreadable in a DSN, in a directory
// of this user's under the temporary one, named after dir.
func socketPath(dir string) (string, error) {
	path := filepath.Join(dir, "s.sock")
	if socketUsable(path) {
		return path, nil
	}
	sum := sha256.Sum256([]byte(dir))
	short := filepath.Join(os.TempDir(), fmt.Sprintf("qrtz-%d-%x", os.Geteuid(), sum[:6]))
	path = filepath.Join(short, "s.sock")
	if !socketUsable(path) {
		path = filepath.Join("/tmp", filepath.Base(short), "s.sock")
	}
	return path, privateDir(filepath.Dir(path))
}

// socketUsable reports whether a socket at path can be made and be named in a DSN.
func socketUsable(path string) bool {
	cfg, err := mysql.ParseDSN(dsn("unix", path, "", ""))
	return err == nil && cfg.Addr == path && len(path) <= maxSocketPath
}

// privateDir creates a directory that no other user can enter, or refuses one that
// another user made.
func privateDir(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() || info.Mode().Perm() != 0o700 || !ownedByUs(info) {
		return fmt.Errorf("%s is not a directory with mode 0700 of this user: remove it", dir)
	}
	return nil
}

// execute runs one statement on a connection of its own.
func execute(ctx context.Context, socket, statement string) error {
	cfg, err := mysql.ParseDSN(dsn("unix", socket, "", ""))
	if err != nil {
		return err
	}
	cfg.Logger = &mysql.NopLogger{} // a server on its way up or down breaks connections
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	defer func() { _ = db.Close() }()
	_, err = db.ExecContext(ctx, statement)
	return err
}

// ping reports whether the server behind socket answers.
func ping(ctx context.Context, socket string) error {
	if _, err := os.Stat(socket); err != nil {
		return err
	}
	return execute(ctx, socket, "DO 0")
}

// retry calls attempt at once and then every 5 to 50 ms until it reports true,
// fails or ctx ends.
func retry(ctx context.Context, attempt func() (bool, error)) error {
	pause := 5 * time.Millisecond
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		if done, err := attempt(); done || err != nil {
			return err
		}
		timer.Reset(pause)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
		}
		pause = min(2*pause, 50*time.Millisecond)
	}
}
