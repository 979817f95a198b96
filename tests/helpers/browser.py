"""Pages in headless Chromium."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars")


class Browser:
    """One window. Whatever a page says on its console is kept until it is asked for."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def open(self, path: Path, width: int = 1200, scheme: str = "light") -> None:
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self._command("Emulation.setEmulatedMedia", features=[feature])
        self._command("Emulation.setDeviceMetricsOverride", width=width, height=2000, deviceScaleFactor=1, mobile=False)
        self.driver.get(path.as_uri())
        if self.all("#arena-data"):
            self.run("return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def _command(self, name: str, **arguments: Any) -> None:
        self.driver.execute_cdp_cmd(name, arguments)

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def text(self, selector: str) -> str:
        return str(self.one(selector).get_property("textContent"))

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def wait(self, condition: str, seconds: float = 30) -> None:
        """Until an expression of the page is true; it may take long on a busy machine."""
        WebDriverWait(self.driver, seconds, 0.05).until(lambda driver: driver.execute_script(f"return {condition}"))

    def said(self) -> list[str]:
        """The console since the last time."""
        return [entry["message"] for entry in self.driver.get_log("browser")]


@contextmanager
def chromium(*flags: str) -> Iterator[Browser]:
    options = webdriver.ChromeOptions()
    for flag in (*FLAGS, *flags):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    options.binary_location = "/usr/bin/chromium"
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService("/usr/bin/chromedriver"))
    try:
        yield Browser(driver)
    finally:
        driver.quit()
