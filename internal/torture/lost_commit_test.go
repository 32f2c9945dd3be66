package main

import (
	"testing"

	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"
	"github.com/stretchr/testify/require"
)

func TestAConnectionEndsAtACommit(t *testing.T) {
	for passed, want := range map[int][]string{0: {"SELECT 1"}, 1: {"SELECT 1", "\x03COMMIT"}} {
		in, out := make(chan *stream.StreamChunk, 3), make(chan *stream.StreamChunk, 3)
		for _, text := range []string{"SELECT 1", "\x03COMMIT", "SELECT 2"} {
			in <- &stream.StreamChunk{Data: []byte(text)}
		}
		(&lostCommit{Passed: passed, OneIn: 1}).Pipe(toxics.NewToxicStub(in, out))
		var got []string
		for chunk := range out { // closed
			got = append(got, string(chunk.Data))
		}
		require.Equal(t, want, got)
	}
}
