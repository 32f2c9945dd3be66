package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/qrtz-go/qrtz/internal/servers/galera"
	"github.com/qrtz-go/qrtz/internal/servers/mysqld"
)

// servers are what the cluster's database runs on: one server, or several that replicate each other.
type servers interface {
	Nodes() int
	DSN(i int, database string) string // by TCP
	Kill(i int)
	Rejoin(ctx context.Context, i int) error // starts a killed one, and returns when it serves again
	Stop(ctx context.Context) error
}

// oneServer is a private MariaDB or MySQL.
type oneServer struct{ *mysqld.Server }

func (s oneServer) Nodes() int                              { return 1 }
func (s oneServer) DSN(_ int, database string) string       { return s.Server.DSN(database) }
func (s oneServer) Kill(int)                                { s.Server.Kill() }
func (s oneServer) Rejoin(ctx context.Context, _ int) error { return s.Restart(ctx) }

func startServer(ctx context.Context, dir string, env []string) (servers, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	server, err := mysqld.Start(ctx, mysqld.Options{Dir: dir, Port: port, Env: env})
	if err != nil {
		return nil, err
	}
	return oneServer{server}, nil
}

// freePort picks a port that stays ours while no server listens on it, for a killed server or a cut line: below those that the
// system hands out to connections, and those of internal/servers/galera.
func freePort() (int, error) {
	const first, last = 10_000, 20_000
	var err error
	for range 100 {
		port := first + rand.IntN(last-first)
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil { //nolint:noctx // it does not wait
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("find a free port: %w", err)
}

func startGalera(ctx context.Context, dir string, env []string) (servers, error) {
	if err := os.Chmod(filepath.Dir(dir), 0o711); err != nil { // user mysql must be able to enter it
		return nil, err
	}
	cluster, err := galera.Start(ctx, galera.Options{Dir: dir, Env: env})
	if err != nil {
		return nil, err
	}
	return cluster, nil
}

// address is where a DSN points to.
func address(dsn string) (string, error) {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return "", err
	}
	if cfg.Net != "tcp" {
		return "", fmt.Errorf("DSN by %s: want tcp, for a proxy", cfg.Net)
	}
	return cfg.Addr, nil
}

// redirected is a DSN that points to another address.
func redirected(dsn, addr string) (string, error) {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return "", err
	}
	cfg.Addr = addr
	return cfg.FormatDSN(), nil
}

// versionText is the server's name and version, for the first line.
func versionText(version, comment string) string {
	if strings.Contains(strings.ToLower(version), "maria") {
		return "MariaDB " + version
	}
	return "MySQL " + version + " (" + comment + ")"
}
