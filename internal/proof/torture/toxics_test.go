package main

import (
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// through sends texts through a toxic, and returns what comes out once it has closed its output.
func through(toxic toxics.Toxic, texts ...string) (got []string) {
	in, out := make(chan *stream.StreamChunk, len(texts)+1), make(chan *stream.StreamChunk, len(texts))
	for _, text := range texts {
		in <- &stream.StreamChunk{Data: []byte(text)}
	}
	close(in)
	stub := toxics.NewToxicStub(in, out)
	if stateful, ok := toxic.(toxics.StatefulToxic); ok {
		stub.State = stateful.NewState()
	}
	toxic.Pipe(stub)
	for chunk := range out {
		got = append(got, string(chunk.Data))
	}
	return got
}

func TestAConnectionEndsAtACommit(t *testing.T) {
	packet := "\x03BEGIN;\nUPDATE T;\nCOMMIT;\nSELECT 1"
	for passed, want := range map[int][]string{0: {"SELECT 1"}, 1: {"SELECT 1", "\x03COMMIT"}} {
		require.Equal(t, want, through(&lostCommit{Passed: passed, OneIn: 1}, "SELECT 1", "\x03COMMIT", "SELECT 2"))
	}
	require.Equal(t, []string{"SELECT 1", packet}, through(&lostCommit{Passed: 1, OneIn: 1}, "SELECT 1", packet, "SELECT 2"))
	require.Empty(t, through(&lostCommit{OneIn: 1}, packet, "SELECT 2"))
}

func TestOnlyTheAnswersOfWideQueriesAreSlow(t *testing.T) {
	wide, narrow, ok := "\x01\x00\x00\x01\x1e", "\x01\x00\x00\x01\x05", "\x07\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00"
	slow := &slowReads{Latency: 100, Columns: 20}
	began := time.Now()
	require.Equal(t, []string{narrow, ok}, through(slow, narrow, ok))
	assert.Less(t, time.Since(began), 100*time.Millisecond)
	require.Equal(t, []string{wide, ok}, through(slow, wide, ok))
	assert.GreaterOrEqual(t, time.Since(began), 100*time.Millisecond)
}

func TestAnAmbushIsSprungOnce(t *testing.T) {
	statement := "\x00\x00\x00\x00\x03BEGIN;\nUPDATE QRTZ_EXECUTE SET X = 1;\nCOMMIT;\nSELECT 1"
	framed := []byte(statement)
	framed[0] = byte(len(framed) - 4)
	id, v := lieInWait("UPDATE QRTZ_EXECUTE")
	in, out := make(chan *stream.StreamChunk, 3), make(chan *stream.StreamChunk, 3)
	for _, text := range []string{"SELECT 1", string(framed), "SELECT 2"} {
		in <- &stream.StreamChunk{Data: []byte(text)}
	}
	stub, toxic := toxics.NewToxicStub(in, out), &ambush{ID: id, How: refused}
	stub.State = toxic.NewState()
	ended := make(chan struct{})
	go func() { toxic.Pipe(stub); close(ended) }()
	<-v.sprung
	require.Equal(t, "SELECT 1", string((<-out).Data))
	got := (<-out).Data
	require.Contains(t, string(got), "X = 1"+lockWait+";\nCOMMIT;")
	require.Equal(t, len(got)-4, int(got[0])|int(got[1])<<8)
	require.Empty(t, out, "what comes after it is swallowed")
	stub.Interrupt <- struct{}{}
	<-ended
	toxic.Cleanup(stub)
	require.True(t, stub.Closed())
	require.Equal(t, []string{string(framed)}, through(&ambush{ID: id, How: refused}, string(framed)), "no other packet is caught")
}
