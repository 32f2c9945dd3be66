// Dbrun lends a private database server to a command, or to a person.
//
//	dbrun -- go test ./...   one throwaway server for the command, in QRTZ_TEST_DSN
//	dbrun in DIR -- COMMAND  a database on the server kept in DIR for the command, in QRTZ_DSN
//	dbrun up DIR             start a server kept in DIR and print how to reach it
//	dbrun down DIR           stop it
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/qrtz-go/qrtz/internal/servers/mysqld"
)

const (
	env      = "QRTZ_TEST_DSN" // read by internal/servers/testdb, which a program must not import
	dsnEnv   = "QRTZ_DSN"      // read by qrtz and by the examples
	database = "qrtz"          // that of the kept server, as in qrtz
)

// stopLimit bounds how long a server may take to stop.
const stopLimit = 30 * time.Second

func main() {
	code, err := run(os.Args[1:])
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "dbrun:", err)
	}
	os.Exit(code)
}

// run returns the exit code: the command's own, or 1 with an error, 2 for wrong usage.
func run(args []string) (int, error) {
	switch {
	case len(args) >= 2 && args[0] == "--":
		return lend(args[1:])
	case len(args) >= 4 && args[0] == "in" && args[2] == "--":
		return lendKept(args[1], args[3:])
	case len(args) == 2 && args[0] == "up":
		return status(up(args[1]))
	case len(args) == 2 && args[0] == "down":
		return status(down(args[1]))
	}
	return 2, errors.New("usage: dbrun -- COMMAND [ARGS] | in DIR -- COMMAND [ARGS] | up DIR | down DIR")
}

func status(err error) (int, error) {
	if err != nil {
		return 1, err
	}
	return 0, nil
}

// lend runs a command with a throwaway server, or with the one already in the environment.
func lend(args []string) (code int, err error) {
	signals := caught()
	if os.Getenv(env) == "" {
		server, err := mysqld.Start(context.Background(), mysqld.Options{})
		if err != nil {
			return 1, err
		}
		defer func() {
			ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
			defer cancel()
			if stopErr := server.Stop(ctx); stopErr != nil {
				code, err = max(code, 1), errors.Join(err, stopErr)
			}
		}()
		if err := os.Setenv(env, server.DSN("")); err != nil {
			return 1, err
		}
	}
	return command(args, signals)
}

// lendKept runs a command with a database on the kept server of dir, or with the database already in the environment. The
// last to use the server stops it.
func lendKept(dir string, args []string) (code int, err error) {
	signals := caught()
	if os.Getenv(dsnEnv) == "" {
		lease, err := mysqld.Shared(context.Background(), dir)
		if err != nil {
			return 1, err
		}
		defer func() {
			ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
			defer cancel()
			if stopErr := lease.Release(ctx); stopErr != nil {
				code, err = max(code, 1), errors.Join(err, stopErr)
			}
		}()
		if err := createDatabase(lease.DSN("")); err != nil {
			return 1, err
		}
		_, _ = fmt.Fprintf(os.Stderr, "%s is not set: using database %s on the private server in %s\n", dsnEnv, database, dir)
		if err := os.Setenv(dsnEnv, lease.DSN(database)); err != nil {
			return 1, err
		}
	}
	return command(args, signals)
}

func createDatabase(dsn string) error {
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		return err
	}
	_, err = db.ExecContext(context.Background(), "CREATE DATABASE IF NOT EXISTS "+database+" CHARACTER SET utf8mb4")
	return errors.Join(err, db.Close())
}

// caught are the signals that a command is to get instead of us.
func caught() <-chan os.Signal {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	return signals
}

// command runs a command to its end, hands it our signals and returns its exit code, which
// is 128 plus the signal's number if one killed it, as in a shell.
func command(args []string, signals <-chan os.Signal) (int, error) {
	cmd := exec.Command(args[0], args[1:]...) //nolint:noctx // it ends by signals, passed on below
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	for {
		select {
		case sig := <-signals:
			_ = cmd.Process.Signal(sig) // it may have ended just now
		case err := <-done:
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				return 1, err
			}
			if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
				return 128 + int(ws.Signal()), nil
			}
			return cmd.ProcessState.ExitCode(), nil
		}
	}
}

// up starts a server that runs on after we have left.
func up(dir string) error {
	lease, err := mysqld.Shared(context.Background(), dir)
	if err != nil {
		return err
	}
	_, err = fmt.Printf("DSN:    %s\nclient: mariadb --no-defaults -uroot -S '%s'\n", lease.DSN(""), lease.Socket()) //nolint:forbidigo // a command
	return errors.Join(err, lease.Leave())
}

// down stops the server of dir, if no other command is using it.
func down(dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	lease, err := mysqld.Shared(ctx, dir)
	if err != nil {
		return err
	}
	return lease.Release(ctx)
}
