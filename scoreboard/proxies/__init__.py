"""Reviews of proxies: which of them send a request twice, between a client and two instances?"""
