package main

import (
	"bytes"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"
)

// How an ambush leaves the transaction that it waits for.
const (
	atWork   = iota // the server has the statement, and carries it out; nothing comes after it
	halved          // the server has half of the statement, or of the packet
	refused         // a statement in the middle of the packet has waited too long for a lock: what went before it has locked its rows
	ambushes        // how many there are
)

// ambush waits for a transaction that writes certain rows. As soon as it is under way, it says so; whatever comes after that on
// the same connection is swallowed, also that the connection has ended, until the ambush is over.
type ambush struct {
	ID  int64 `json:"id"` // in waiting
	How int   `json:"how"`
}

// victim is what an ambush waits for.
type victim struct {
	marks  [][]byte // in the text of the statement, all of them
	sprung chan struct{}
	over   atomic.Bool // it has been caught
}

var (
	waiting   sync.Map // victims by id
	waitingID atomic.Int64
)

// lieInWait makes a victim and returns the id that an ambush finds it by.
func lieInWait(marks ...string) (int64, *victim) {
	v := &victim{sprung: make(chan struct{})}
	for _, m := range marks {
		v.marks = append(v.marks, []byte(m))
	}
	id := waitingID.Add(1)
	waiting.Store(id, v)
	return id, v
}

// NewState is whether this connection has been caught.
func (a *ambush) NewState() any { return new(bool) }

// Cleanup ends a connection that has been caught.
func (a *ambush) Cleanup(stub *toxics.ToxicStub) {
	if caught, _ := stub.State.(*bool); caught != nil && *caught {
		stub.Close()
	}
}

// Pipe passes on what comes until the victim does.
func (a *ambush) Pipe(stub *toxics.ToxicStub) {
	found, _ := waiting.Load(a.ID)
	v, _ := found.(*victim)
	caught, _ := stub.State.(*bool)
	for !*caught {
		select {
		case <-stub.Interrupt:
			return
		case chunk := <-stub.Input:
			if chunk == nil {
				stub.Close()
				return
			}
			if v == nil || !v.isIn(chunk.Data) || !v.over.CompareAndSwap(false, true) {
				stub.Output <- chunk
				continue
			}
			a.spring(stub, chunk)
			*caught = true
			close(v.sprung)
		}
	}
	swallow(stub)
}

// swallow takes what comes, also that nothing comes any more, and passes on nothing.
func swallow(stub *toxics.ToxicStub) {
	for input := stub.Input; ; {
		select {
		case <-stub.Interrupt:
			return
		case chunk := <-input:
			if chunk == nil {
				input = nil
			}
		}
	}
}

func (v *victim) isIn(data []byte) bool {
	for _, m := range v.marks {
		if !bytes.Contains(data, m) {
			return false
		}
	}
	return true
}

// spring passes on what the server is to have of the statement.
func (a *ambush) spring(stub *toxics.ToxicStub, chunk *stream.StreamChunk) {
	switch {
	case a.How == halved && commits(chunk.Data):
		chunk.Data = chunk.Data[:len(chunk.Data)/2]
	case a.How == refused:
		chunk.Data = refuseCommit(chunk.Data)
	}
	stub.Output <- chunk
	<-time.After(rand.N(5 * time.Millisecond)) // the server is somewhere in the middle
}

// lockWait is what a server answers to a statement that has waited too long for a lock; the transaction stays open.
const lockWait = ";\nSIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1205, MESSAGE_TEXT = 'Lock wait timeout exceeded'"

// refuseCommit puts a statement that fails before the COMMIT of a packet. What is not a whole packet stays as it is.
func refuseCommit(data []byte) []byte {
	at := bytes.Index(data, []byte(";\nCOMMIT"))
	if at < 0 || len(data) < 5 || int(data[0])|int(data[1])<<8|int(data[2])<<16 != len(data)-4 {
		return data
	}
	changed := append(append(append(make([]byte, 0, len(data)+len(lockWait)), data[:at]...), lockWait...), data[at:]...)
	n := len(changed) - 4
	changed[0], changed[1], changed[2] = byte(n), byte(n>>8), byte(n>>16)
	return changed
}
