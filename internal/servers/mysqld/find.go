// Package mysqld finds a MariaDB or MySQL server program and runs private
// servers with it: one for a test run, or one kept for qrtz commands that were
// given no DSN. It never reads /etc/mysql, never listens on port 3306 by itself
// and never touches a server it did not start.
package mysqld

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// PathEnv names the environment variable that overrides the search of Find,
// for a server that is unpacked but not installed.
const PathEnv = "QRTZ_MYSQLD"

// ErrNotFound is returned, wrapped, when no server program is installed.
var ErrNotFound = errors.New("neither mariadbd nor mysqld found")

// Find returns the server program to use: $QRTZ_MYSQLD when set, else the first
// mariadbd, else mysqld, on PATH or in the directories where distributions put
// daemons. Its error wraps ErrNotFound and says what to install.
func Find() (string, error) {
	if path := os.Getenv(PathEnv); path != "" {
		found, err := exec.LookPath(path)
		if err != nil {
			return "", fmt.Errorf("%s: %w", PathEnv, err)
		}
		return found, nil
	}
	for _, name := range []string{"mariadbd", "mysqld"} {
		if path, ok := lookup(name, "/usr/sbin", "/usr/libexec", "/usr/local/sbin"); ok {
			return path, nil
		}
	}
	return "", fmt.Errorf("%w on PATH, in /usr/sbin, /usr/libexec or /usr/local/sbin: "+
		"install a server (Debian, Ubuntu: apt-get install mariadb-server; Fedora: dnf install mariadb-server; "+
		"macOS: brew install mariadb), or give the DSN of a running one", ErrNotFound)
}

// lookup finds a program on PATH, else in one of dirs.
func lookup(name string, dirs ...string) (string, bool) {
	if path, err := exec.LookPath(name); err == nil {
		return path, true
	}
	for _, dir := range dirs {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, true
		}
	}
	return "", false
}

// IsMariaDB asks a server program for its version, which takes about 10 ms.
func IsMariaDB(ctx context.Context, path string) (bool, error) {
	out, err := exec.CommandContext(ctx, path, "--no-defaults", "--version").CombinedOutput()
	if err != nil {
		return false, fmt.Errorf("%s --version: %w: %s", path, err, strings.TrimSpace(string(out)))
	}
	return strings.Contains(string(out), "MariaDB"), nil
}
