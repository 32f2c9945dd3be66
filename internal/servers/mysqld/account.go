package mysqld

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
)

// account is who a server runs as, nil if it is this process's own user.
type account struct{ uid, gid int }

// lookupAccount finds an account by name; only root can start a server as another user.
func lookupAccount(name string) (*account, error) {
	if name == "" || os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return nil, err
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return nil, fmt.Errorf("user %s: %w", name, err)
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return nil, fmt.Errorf("user %s: %w", name, err)
	}
	return &account{uid, gid}, nil
}

// own gives directories to the account.
func (a *account) own(dirs ...string) error {
	if a == nil {
		return nil
	}
	for _, dir := range dirs {
		if err := os.Chown(dir, a.uid, a.gid); err != nil {
			return err
		}
	}
	return nil
}
