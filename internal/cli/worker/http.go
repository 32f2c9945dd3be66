package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/qrtz-go/qrtz"
)

const (
	httpExample = `{"method": "POST", "url": "https://example.com/hook", "body": {"a": 1}, "expect": [200, 202], "timeout": "10s"}`

	httpTimeout = 30 * time.Second // unless the data says otherwise
	maxDrained  = 256 << 10        // bytes of a response that are read, so that the connection can be used again
	maxQuoted   = 512              // bytes of a response that an error quotes
)

type httpClass struct{ client *http.Client }

func newHTTPClass() httpClass {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 16
	return httpClass{&http.Client{Transport: transport}}
}

// httpData is what JOB_DATA of class http may say.
type httpData struct {
	Method  string            `json:"method"` // default GET
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`
	Body    json.RawMessage   `json:"body"`    // a string is sent as it is, anything else as JSON
	Expect  statuses          `json:"expect"`  // a status or a list of them; default any 2xx
	Timeout string            `json:"timeout"` // for the whole exchange; default 30s
}

func (c httpClass) run(ctx context.Context, _ *qrtz.Run, data json.RawMessage) error {
	var want httpData
	if err := decode(data, &want, "http", httpExample); err != nil {
		return err
	}
	timeout, err := want.timeout()
	if err != nil {
		return fmt.Errorf("JOB_DATA of class http: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no complete answer within %s", timeout))
	defer cancel()
	request, err := want.request(ctx)
	if err != nil {
		return fmt.Errorf("JOB_DATA of class http: %w", err)
	}
	response, err := c.client.Do(request)
	if err != nil {
		return fmt.Errorf("class http: %w%s", err, causeOf(ctx))
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxDrained))
	if err != nil {
		return fmt.Errorf("class http: %s %s: %s, then: %w%s", request.Method, request.URL.Redacted(), response.Status, err, causeOf(ctx))
	}
	if !want.Expect.contain(response.StatusCode) {
		return fmt.Errorf("class http: %s %s: got %s, want %s%s", request.Method, request.URL.Redacted(), response.Status, want.Expect, excerpt(body))
	}
	return nil
}

func (d httpData) timeout() (time.Duration, error) {
	if d.Timeout == "" {
		return httpTimeout, nil
	}
	timeout, err := time.ParseDuration(d.Timeout)
	if err != nil || timeout <= 0 {
		return 0, fmt.Errorf("timeout %q: want a duration above 0, for example \"30s\"", d.Timeout)
	}
	return timeout, nil
}

func (d httpData) request(ctx context.Context) (*http.Request, error) {
	u, err := url.Parse(d.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("url %q: want http:// or https:// and a host; for example %s", d.URL, httpExample)
	}
	body, isJSON := []byte(d.Body), len(d.Body) > 0
	var text string
	if json.Unmarshal(d.Body, &text) == nil {
		body, isJSON = []byte(text), false
	}
	request, err := http.NewRequestWithContext(ctx, strings.ToUpper(d.Method), d.URL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if isJSON {
		request.Header.Set("Content-Type", "application/json")
	}
	for name, value := range d.Headers {
		if strings.EqualFold(name, "Host") {
			request.Host = value // the client ignores the header
		}
		request.Header.Set(name, value)
	}
	return request, nil
}

// statuses are the status codes that mean success; none means any 2xx.
type statuses []int

// UnmarshalJSON takes one code or a list of them.
func (s *statuses) UnmarshalJSON(data []byte) error {
	var one int
	if json.Unmarshal(data, &one) == nil {
		data = fmt.Appendf(nil, "[%d]", one)
	}
	if err := json.Unmarshal(data, (*[]int)(s)); err != nil {
		return fmt.Errorf("expect %s: want a status such as 200 or a list such as [200, 404]", data)
	}
	for _, code := range *s {
		if code < 100 || code > 999 {
			return fmt.Errorf("expect %d: a status has three digits", code)
		}
	}
	return nil
}

func (s statuses) contain(code int) bool {
	if len(s) == 0 {
		return code/100 == 2
	}
	return slices.Contains(s, code)
}

// String lists the codes.
func (s statuses) String() string {
	if len(s) == 0 {
		return "2xx"
	}
	return strings.Trim(strings.ReplaceAll(fmt.Sprint([]int(s)), " ", " or "), "[]")
}

// excerpt is the beginning of a response, for people.
func excerpt(body []byte) string {
	text := strings.TrimSpace(strings.ToValidUTF8(string(body), "\uFFFD"))
	if text == "" {
		return "; the response is empty"
	}
	if len(text) > maxQuoted {
		text = strings.ToValidUTF8(text[:maxQuoted], "") + "…"
	}
	return "; the response says: " + text
}

// causeOf says why a context ended where the error itself says only that it did.
func causeOf(ctx context.Context) string {
	if ctx.Err() == nil {
		return ""
	}
	return " (" + context.Cause(ctx).Error() + ")"
}
