package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestEditsNest(t *testing.T) {
	assert.Equal(t, "if not(and(less(a, b), c)) {}", string(apply([]byte("if a<b && c {}"), []edit{
		{from: 3, to: 11, open: "not(", closing: ")", seq: 1},
		{from: 3, to: 11, open: "and(", closing: ")", seq: 2},
		{from: 6, to: 9, text: ",", seq: 2},
		{from: 3, to: 6, open: "less(", closing: ")", seq: 3},
		{from: 4, to: 5, text: ", ", seq: 3},
	})))
}
