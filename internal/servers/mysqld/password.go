package mysqld

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Password returns the password that is kept in a directory, readable by its owner only. It makes a new one if there is none.
func Password(dir string) (string, error) {
	path := filepath.Join(dir, "password")
	text, err := os.ReadFile(path)
	if err == nil && len(text) > 0 {
		return string(text), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	password := rand.Text()
	if err := os.WriteFile(path, []byte(password), 0o600); err != nil {
		return "", err
	}
	return password, os.Chmod(path, 0o600) // it may have been there, empty
}

// guardPort lets root in by the port, with the server's password only. Without one, any user of the machine could come in.
func (s *Server) guardPort(try func(statement string) error) error {
	for _, statement := range []string{
		"CREATE USER IF NOT EXISTS 'root'@'127.0.0.1' IDENTIFIED BY '%[1]s'",
		"ALTER USER 'root'@'127.0.0.1' IDENTIFIED BY '%[1]s'", // one that was there
		"GRANT ALL PRIVILEGES ON *.* TO 'root'@'127.0.0.1' WITH GRANT OPTION%.0[1]s",
	} {
		if err := try(fmt.Sprintf(statement, s.opts.Password)); err != nil {
			return err
		}
	}
	return nil
}
