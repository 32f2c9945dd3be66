package poller

import "time"

// Where many nodes have more to claim than the database takes, each waits after a claim, so that only some of them claim at once. More
// start less: each claim waits for the others, for locks too, and those that wait in vain for a second are rolled back.
const (
	claimers    = 4                     // nodes that claim at once
	dearClaim   = 50 * time.Millisecond // quicker claims wait for no others
	longBackOff = 2 * time.Second
)

// backOff notes that a claim has ended, and until when this node makes no other: so long that all nodes, if they do the same, make no more than
// some claims at once. A node that is not behind claims when it wants.
func (p *Poller) backOff(took time.Duration) {
	_, of := p.cluster.Position()
	if of <= claimers || took < dearClaim || !p.behind() {
		return
	}
	pause := min(took*time.Duration(of-claimers)/claimers, longBackOff)
	p.noClaim.Store(time.Now().Add(pause).UnixNano())
}

// backingOff is how long this node makes no claim yet.
func (p *Poller) backingOff() time.Duration {
	return max(0, time.Until(time.Unix(0, p.noClaim.Load())))
}
