package main

import (
	"bytes"
	"math/rand/v2"
	"time"

	"github.com/Shopify/toxiproxy/v2/toxics"
)

// The toxics of ours: things that go wrong with a line at certain statements.

const (
	lostCommitType = "lost_commit"
	slowReadsType  = "slow_reads"
	ambushType     = "ambush"
)

func registerToxics() {
	toxics.Register(lostCommitType, new(lostCommit))
	toxics.Register(slowReadsType, new(slowReads))
	toxics.Register(ambushType, new(ambush))
}

// lostCommit ends a connection at one COMMIT in so many, which has or has not been passed on. The COMMIT comes alone, or in
// the middle of a packet of statements.
type lostCommit struct {
	Passed int `json:"passed"` // 1: it has
	OneIn  int `json:"oneIn"`
}

// Pipe passes on what comes. A statement of the driver's is one chunk, or several if it is long.
func (c *lostCommit) Pipe(stub *toxics.ToxicStub) {
	for {
		select {
		case <-stub.Interrupt:
			return
		case chunk := <-stub.Input:
			if chunk == nil {
				stub.Close()
				return
			}
			last := commits(chunk.Data) && rand.IntN(max(c.OneIn, 1)) == 0
			if !last || c.Passed == 1 {
				stub.Output <- chunk
			}
			if last {
				stub.Close()
				return
			}
		}
	}
}

// commits tells whether a COMMIT is on its way: the whole statement, or one of several.
func commits(data []byte) bool {
	return bytes.HasSuffix(data, []byte("COMMIT")) || bytes.Contains(data, []byte(";\nCOMMIT"))
}

// slowReads delays the answers to queries of many columns, as those of a poll, and no others.
type slowReads struct {
	Latency int `json:"latency"` // ms
	Jitter  int `json:"jitter"`  // ms more, at most
	Columns int `json:"columns"` // at least
}

// Pipe passes on what comes, later if it is the beginning of such an answer.
func (r *slowReads) Pipe(stub *toxics.ToxicStub) {
	for {
		select {
		case <-stub.Interrupt:
			return
		case chunk := <-stub.Input:
			if chunk == nil {
				stub.Close()
				return
			}
			if columns(chunk.Data) >= r.Columns {
				late := time.NewTimer(time.Duration(r.Latency+rand.IntN(r.Jitter+1)) * time.Millisecond)
				select {
				case <-late.C:
				case <-stub.Interrupt:
					late.Stop()
					stub.Output <- chunk
					return
				}
			}
			stub.Output <- chunk
		}
	}
}

// columns is how many columns the answer has that begins with data; 0 if none does. An answer's first packet has number 1 and,
// unless it is an OK or an error, only the count; MariaDB adds whether the columns are described.
func columns(data []byte) int {
	if len(data) < 5 || data[0] < 1 || data[0] > 2 || data[1] != 0 || data[2] != 0 || data[3] != 1 || data[4] >= 0xfb {
		return 0
	}
	return int(data[4])
}

// wideQuery is how many columns the answer of a poll has at least: whole rows of executes with their jobs. Other queries of the
// engine's have fewer.
const wideQuery = 24
