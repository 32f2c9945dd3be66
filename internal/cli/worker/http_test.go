package worker

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestHTTP(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/echo":
			body, _ := io.ReadAll(r.Body)
			if r.Method != "POST" || r.Header.Get("X-A") != "b" || r.Host != "other" || string(body) != `{"a": 1}` || r.Header.Get("Content-Type") != "application/json" {
				http.Error(w, fmt.Sprintf("%s %s %v %s", r.Method, r.Host, r.Header, body), http.StatusBadRequest)
			}
		case "/text":
			if body, _ := io.ReadAll(r.Body); string(body) != "plain" || r.Header.Get("Content-Type") != "" {
				http.Error(w, string(body), http.StatusBadRequest)
			}
		case "/missing":
			http.Error(w, strings.Repeat("no such thing ", 100), http.StatusNotFound)
		case "/empty":
			w.WriteHeader(http.StatusTeapot)
		case "/endless":
			for range 100 {
				_, _ = w.Write(make([]byte, 1<<20))
			}
		case "/slow":
			<-release
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(release) })
	for _, c := range []struct{ path, rest, says string }{
		{path: "/"},
		{path: "/echo", rest: `, "method": "post", "headers": {"X-A": "b", "Host": "other"}, "body": {"a": 1}`},
		{path: "/text", rest: `, "method": "PUT", "body": "plain"`},
		{path: "/missing", rest: `, "expect": 404`},
		{path: "/missing", rest: `, "expect": [200, 404]`},
		{path: "/endless"},
		{path: "/missing", says: "got 404 Not Found, want 2xx; the response says: no such thing"},
		{path: "/", rest: `, "expect": [201, 202]`, says: "got 200 OK, want 201 or 202; the response is empty"},
		{path: "/empty", says: "got 418 I'm a teapot"},
		{path: "/slow", rest: `, "timeout": "20ms"`, says: "no complete answer within 20ms"},
	} {
		data := json.RawMessage(fmt.Sprintf(`{"url": %q%s}`, server.URL+c.path, c.rest))
		err := newHTTPClass().run(t.Context(), aRun(), data)
		if c.says == "" {
			require.NoError(t, err, c.path)
			continue
		}
		require.ErrorContains(t, err, c.says, c.path)
		assert.Less(t, len(err.Error()), 1000)
	}
}

func TestHTTPWithoutAServer(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	err := newHTTPClass().run(t.Context(), aRun(), json.RawMessage(fmt.Sprintf(`{"url": %q}`, strings.Replace(server.URL, "http://", "http://me:secret@", 1))))
	require.ErrorContains(t, err, "connection refused")
	assert.NotContains(t, err.Error(), "secret")
}
