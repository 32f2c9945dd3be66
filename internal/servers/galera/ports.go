package galera

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"
)

// Ports are taken in blocks below 32768, where Linux begins to hand them out to
// outgoing connections.
const (
	firstPort, lastPort = 20000, 32000
	blockSize           = 40
	portsPerNode        = 4
	maxNodes            = blockSize / portsPerNode
)

// ports are those of one node.
type ports struct{ sql, group, ist, sst int }

// block is a range of ports that are ours until it is released or this process
// ends, however it does: clusters of several processes lock each other out.
type block struct {
	first int
	lock  *flock.Flock
}

// takePorts finds a block of free ports.
func takePorts(nodes int) (*block, error) {
	for first := firstPort; first < lastPort; first += blockSize {
		lock := flock.New(filepath.Join(os.TempDir(), fmt.Sprintf("qrtz-galera-%d.lock", first)))
		if locked, err := lock.TryLock(); err != nil || !locked {
			continue // another cluster's, perhaps another user's
		}
		if free(first, nodes*portsPerNode) {
			return &block{first: first, lock: lock}, nil
		}
		_ = lock.Unlock()
	}
	return nil, errors.New("no free ports for a Galera cluster between 20000 and 32000")
}

func free(first, n int) bool {
	for port := first; port < first+n; port++ {
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)) //nolint:noctx // it does not wait
		if err != nil {
			return false
		}
		_ = listener.Close()
	}
	return true
}

func (b *block) of(node int) ports {
	first := b.first + portsPerNode*node
	return ports{sql: first, group: first + 1, ist: first + 2, sst: first + 3}
}

func (b *block) release() error { return b.lock.Unlock() }
