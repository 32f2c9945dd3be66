package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func literal(s string) piece { return piece{text: s, literal: true} }
func known(s string) piece   { return piece{text: s} }

// texts are all mutations of a text, whole.
func texts(pieces ...piece) (all []string) {
	for _, c := range sqlChanges(pieces) {
		changed := c.apply(pieces)
		whole := ""
		for i, p := range pieces {
			if s, ok := changed[i]; ok {
				whole += s
			} else {
				whole += p.text
			}
		}
		all = append(all, whole)
	}
	return all
}

func TestThePredicatesOfAConjunctionAreRemovedOneByOne(t *testing.T) {
	assert.ElementsMatch(t, []string{
		`WHERE (1 = 1 OR (A = ?)) AND B BETWEEN 1 AND 2`,
		`WHERE A = ? AND (1 = 1 OR (B BETWEEN 1 AND 2))`,
	}, texts(literal(`WHERE A = ? AND B BETWEEN 1 AND 2`)))
	assert.Empty(t, texts(literal(`SELECT A FROM T WHERE ID = ?`)), "one predicate alone stays")
}

func TestEachAlternativeIsRemoved(t *testing.T) {
	assert.ElementsMatch(t, []string{
		`IF((1 = 0 AND (A IS NULL)) OR B = 'x AND y', 1, 2)`,
		`IF(A IS NULL OR (1 = 0 AND (B = 'x AND y')), 1, 2)`,
	}, texts(literal(`IF(A IS NULL OR B = 'x AND y', 1, 2)`)))
}

func TestBoundsLimitsOrdersAndLocksAreChanged(t *testing.T) {
	assert.ElementsMatch(t, []string{
		`SELECT A FROM T WHERE A <= ? ORDER BY A, B DESC LIMIT 1 FOR UPDATE SKIP LOCKED`,
		`SELECT A FROM T WHERE A < ? ORDER BY A DESC, B  LIMIT 1 FOR UPDATE SKIP LOCKED`,
		`SELECT A FROM T WHERE A < ? ORDER BY A, B DESC LIMIT 2 FOR UPDATE SKIP LOCKED`,
		`SELECT A FROM T WHERE A < ? ORDER BY A, B DESC LIMIT 1 FOR UPDATE `,
		`SELECT A FROM T WHERE A < ? ORDER BY A, B DESC LIMIT 1 `,
	}, texts(literal(`SELECT A FROM T WHERE A < ? ORDER BY A, B DESC LIMIT 1 FOR UPDATE SKIP LOCKED`)))
}

func TestColumnsKeepWhatTheyHold(t *testing.T) {
	assert.ElementsMatch(t, []string{
		`UPDATE T SET R.A = IF(1 = 1, R.A, IF(B, 1, ?)), C = C, D = NULL WHERE E <=> ?`,
		`UPDATE T SET R.A = IF(B, 1, ?), C = C, D = IF(1 = 1, D, NULL) WHERE E <=> ?`,
		`UPDATE T SET R.A = IF(B, 1, ?), C = C, D = NULL WHERE E = ?`,
	}, texts(literal(`UPDATE T SET R.A = IF(B, 1, ?), C = C, D = NULL WHERE E <=> ?`)))
}

func TestATextOfSeveralPiecesIsReadAsOne(t *testing.T) {
	assert.ElementsMatch(t, []string{
		`WHERE (1 = 1 OR (X = 1 AND Y = 2)) AND Z IS NULL`,
		`WHERE X = 1 AND Y = 2 AND (1 = 1 OR (Z IS NULL))`,
	}, texts(literal(`WHERE `), piece{text: `X = 1 AND Y = 2`, opaque: true}, literal(` AND Z IS NULL`)), "what is not known is one predicate")
	assert.ElementsMatch(t, []string{
		`WHERE A = 1 AND (1 = 1 OR (crc(B) = V.SPEC))`,
		`WHERE (1 = 1 OR (A = 1)) AND crc(B) = V.SPEC`,
	}, texts(literal(`WHERE A = 1 AND `), known(`crc(B)`), literal(` = V.SPEC`)), "a predicate across pieces")
	assert.Equal(t, []string{
		`WHERE X = 1 AND Y = 2 AND (1 = 1 OR (Z IS NULL))`,
	}, texts(literal(`WHERE `), known(`X = 1 AND Y = 2`), literal(` AND Z IS NULL`)), "what another text owns is changed there")
	assert.ElementsMatch(t, []string{
		` AND (1 = 1 OR (FIND_IN_SET(V.ID, @FREE)))`,
	}, texts(literal(` AND FIND_IN_SET(V.ID, @FREE)`)), "a part that begins with AND")
}
