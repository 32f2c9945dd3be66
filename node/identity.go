package node

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// maxID is how long a node id may be, in bytes: HOST_IP takes no more.
const maxID = 50

// process is this process as the cluster knows it.
type process struct {
	nodeID   string
	isNew    bool // it has no row yet
	hostName string
	identity identity
	classes  []string
	version  string
	skew     time.Duration
}

// identity is what a process is known by on its machine.
type identity struct {
	pid       int64
	bootID    string // of the machine's present boot
	namespace int64  // in which pid means this process
	start     int64  // when it started, in the unit of its machine
	known     bool   // all of this could be read
}

// gone tells whether a process that said so of itself is proven to be dead, to me: only in the same boot of a machine
// and in the same namespace can one process know of another. An inode number of a namespace comes round again once the
// namespace is gone, and its processes with it.
func (me identity) gone(other identity) bool {
	if !me.known || !other.known || me.bootID != other.bootID || me.namespace != other.namespace {
		return false
	}
	if !processLives(other.pid) {
		return true
	}
	start, ok := processStart(other.pid)
	return ok && start != other.start
}

// ValidateID refuses a node id that its column does not take, or takes for another one.
func ValidateID(id string) error {
	if strings.TrimSpace(id) != id {
		return fmt.Errorf("node id %q begins or ends with a blank, which some servers do not tell apart", id)
	}
	if len(id) > maxID {
		return fmt.Errorf("node id %q has %d bytes: at most %d fit", id, len(id), maxID)
	}
	return nil
}

// address is this machine's address: the first one that is not loopback, or 127.0.0.1.
func address() string {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return "127.0.0.1"
	}
	for _, a := range addresses {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.IsGlobalUnicast() && ip.IP.To4() != nil {
			return ip.IP.String()
		}
	}
	return "127.0.0.1"
}

// candidate is the k-th node id a process on this machine may take: address, address#2, address#3 …
func candidate(address string, k int) string {
	if k == 0 {
		return address
	}
	return address + "#" + strconv.Itoa(k+1)
}

func hostName() string {
	name, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return name[:min(len(name), 80)]
}
