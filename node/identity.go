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
	hostIP    string // the node id
	hostName  string
	processID int
	classes   []string
	version   string
	skew      time.Duration
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
